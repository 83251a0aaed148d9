use std::rc::Rc;
use std::sync::Mutex;

use rillkit::{Message, subscribe};

static COUNT: Mutex<u64> = Mutex::new(0);

async fn pause() {}

#[subscribe(stream = "a", group = "workers")]
async fn shared(_message: Message) {
    let count = Rc::new(1);
    pause().await;
    drop(count);
}

#[subscribe(stream = "b", group = "workers")]
async fn locked(_message: Message) {
    let mut count = COUNT.lock().unwrap();
    pause().await;
    *count += 1;
}

fn main() {}
