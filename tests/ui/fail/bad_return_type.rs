use rillkit::{Message, subscribe};

struct NotAnError;

#[subscribe(stream = "a", group = "workers")]
async fn number(_message: Message) -> u32 {
    1
}

#[subscribe(stream = "b", group = "workers")]
async fn value(_message: Message) -> Result<u32, String> {
    Ok(1)
}

#[subscribe(stream = "c", group = "workers")]
async fn error(_message: Message) -> Result<(), NotAnError> {
    Ok(())
}

#[subscribe(stream = "d", group = "workers")]
async fn optional(_message: Message) -> Option<()> {
    None
}

fn main() {}
