//! A way between a worker and its server that can be broken.
//!
//! It passes whole requests and replies, so it knows which reply belongs to which request. It takes plain RESP;
//! TLS does not get through.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{Reply, port};

/// A proxy to a loopback port. It forwards until a switch says otherwise; [`forward`](Self::forward) takes all
/// switches back.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    entrance: Mutex<Option<Entrance>>,
}

impl Proxy {
    /// A proxy to the server on `port`.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = port::listen();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(port),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        Self {
            port: port::number(&listener),
            entrance: Mutex::new(Some(Entrance::open(listener, &shared))),
            shared,
        }
    }

    /// The port that the proxy listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Leads new connections to another port, as after a failover. Those that live stay where they are:
    /// [`cut`](Self::cut) ends them.
    pub fn lead_to(&self, port: u16) {
        self.shared.target.store(port, Ordering::SeqCst);
    }

    /// Refuses new connections, as a host does on which no server runs. Those that live go on:
    /// [`cut`](Self::cut) ends them.
    pub fn refuse(&self) {
        if let Some(entrance) = self.entrance().take() {
            entrance.close(self.port);
        }
    }

    /// Closes all live connections, towards both sides.
    pub fn cut(&self) {
        let links = std::mem::take(&mut self.shared.state().live);
        links.values().for_each(Link::shut);
        self.shared.changed.notify_all();
    }

    /// While `true`, connections are accepted and kept, and nothing passes: no byte and no end of a connection.
    /// What was held passes when it is `false` again.
    pub fn black_hole(&self, on: bool) {
        self.shared.state().black_hole = on;
        self.shared.changed.notify_all();
    }

    /// Holds each reply back for `delay`. One connection's replies wait one after another.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Loses one reply: the next request that has `command` as its name or as one of its arguments, in any case,
    /// reaches the server and is carried out; in place of its reply the connection is closed. Requests sent
    /// after it on that connection do not reach the server; replies to those before it pass.
    pub fn lose_reply_of(&self, command: &str) {
        let mut state = self.shared.state();
        state.lose_reply_of = Some(command.into());
        state.holds_lost_reply = false;
    }

    /// Loses one request: the next that [`lose_reply_of`](Self::lose_reply_of) would mean does not reach the
    /// server, and its connection is closed.
    pub fn lose_request_of(&self, command: &str) {
        self.shared.state().lose_request_of = Some((command.into(), false));
    }

    /// Holds one request back for good: the next that [`lose_reply_of`](Self::lose_reply_of) would mean does not
    /// reach the server, nor does what follows it on that connection, which stays open.
    pub fn hold_request_of(&self, command: &str) {
        self.shared.state().lose_request_of = Some((command.into(), true));
    }

    /// Holds one reply back for good, and what follows it on that connection, which stays open; the server has
    /// carried the request out.
    pub fn hold_reply_of(&self, command: &str) {
        let mut state = self.shared.state();
        state.lose_reply_of = Some(command.into());
        state.holds_lost_reply = true;
    }

    /// How many requests were lost or held.
    #[must_use]
    pub fn lost_requests(&self) -> usize {
        self.shared.state().lost_requests
    }

    /// How many replies were lost or held.
    #[must_use]
    pub fn lost_replies(&self) -> usize {
        self.shared.state().lost_replies
    }

    /// How many connections live.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().live.len()
    }

    /// Back to normal: accepts, and passes everything at once.
    ///
    /// # Panics
    /// When another process took the port while connections were refused.
    pub fn forward(&self) {
        {
            let mut state = self.shared.state();
            state.black_hole = false;
            state.delay = Duration::ZERO;
            state.lose_reply_of = None;
            state.lose_request_of = None;
        }
        self.shared.changed.notify_all();
        self.entrance().get_or_insert_with(|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
                .expect("the proxy's port is still free");
            Entrance::open(listener, &self.shared)
        });
    }

    fn entrance(&self) -> MutexGuard<'_, Option<Entrance>> {
        self.entrance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
    }
}

/// The listener and the thread that accepts on it.
#[derive(Debug)]
struct Entrance {
    closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Entrance {
    fn open(listener: TcpListener, shared: &Arc<Shared>) -> Self {
        let closing = Arc::new(AtomicBool::new(false));
        let (shared, stop) = (Arc::clone(shared), Arc::clone(&closing));
        let thread = thread::spawn(move || {
            for client in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                if let Ok(client) = client {
                    // A server that is down is seen by the client as a closed connection.
                    let _ = Shared::link(&shared, client);
                }
            }
        });
        Self { closing, thread }
    }

    /// Returns once the port is closed.
    fn close(self, port: u16) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the thread; an error means that it is past waiting.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        self.thread
            .join()
            .expect("the accepting thread never panics");
    }
}

#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    black_hole: bool,
    delay: Duration,
    lose_reply_of: Option<String>,
    holds_lost_reply: bool,
    lost_replies: usize,
    /// The word, and whether the connection stays open.
    lose_request_of: Option<(String, bool)>,
    lost_requests: usize,
    accepted: u64,
    live: HashMap<u64, Link>,
}

/// One client's connection and the connection to the server that was made for it.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// The number, from 1, of the reply to lose.
    lose: Option<u64>,
}

impl Link {
    fn shut(&self) {
        // The other side may have closed it before.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to the server for `client` and starts the two threads that pass what either says.
    fn link(shared: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, shared.target.load(Ordering::SeqCst)));
        let server = TcpStream::connect_timeout(&target, Duration::from_secs(1))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let requests = Pipe::new(&client, &server)?;
        let replies = Pipe::new(&server, &client)?;
        let id = {
            let mut state = shared.state();
            state.accepted += 1;
            let id = state.accepted;
            let link = Link {
                client,
                server,
                lose: None,
            };
            state.live.insert(id, link);
            id
        };
        let (to_server, to_client) = (Arc::clone(shared), Arc::clone(shared));
        thread::spawn(move || to_server.pass_requests(id, requests));
        thread::spawn(move || to_client.pass_replies(id, replies));
        Ok(())
    }

    fn pass_requests(&self, id: u64, mut pipe: Pipe) {
        let mut sent = 0;
        while let Some((request, bytes)) = pipe.next() {
            if !self.may_pass(id) {
                return;
            }
            match self.loses_request(&request) {
                Some(true) => return,
                Some(false) => break,
                None => {}
            }
            sent += 1;
            let is_last = self.loses_reply_of(id, sent, &request);
            if pipe.to.write_all(&bytes).is_err() {
                break;
            }
            if is_last {
                return;
            }
        }
        self.close(id);
    }

    fn pass_replies(&self, id: u64, mut pipe: Pipe) {
        let mut received = 0;
        while let Some((_, bytes)) = pipe.next() {
            let delay = self.state().delay;
            thread::sleep(delay);
            if !self.may_pass(id) {
                return;
            }
            // A push of RESP3 answers no request.
            if bytes[0] != b'>' {
                received += 1;
            }
            match self.loses_reply(id, received) {
                Some(true) => return,
                Some(false) => break,
                None => {}
            }
            if pipe.to.write_all(&bytes).is_err() {
                break;
            }
        }
        self.close(id);
    }

    /// Waits out a black hole; `false` when the connection was cut.
    fn may_pass(&self, id: u64) -> bool {
        let state = self
            .changed
            .wait_while(self.state(), |state| {
                state.black_hole && state.live.contains_key(&id)
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.live.contains_key(&id)
    }

    /// Whether the reply of this request is the one to lose, which is so once.
    fn loses_reply_of(&self, id: u64, number: u64, request: &Reply) -> bool {
        let mut state = self.state();
        let State {
            lose_reply_of,
            live,
            ..
        } = &mut *state;
        let Some(link) = live.get_mut(&id) else {
            return false;
        };
        let is_meant = lose_reply_of
            .take_if(|word| has_word(request, word))
            .is_some();
        if is_meant {
            link.lose = Some(number);
        }
        is_meant
    }

    /// Whether this request is the one to lose, which is so once; and then, whether its connection stays open.
    fn loses_request(&self, request: &Reply) -> Option<bool> {
        let mut state = self.state();
        let is_meant = |(word, _): &mut (String, bool)| has_word(request, word);
        let (_, stays_open) = state.lose_request_of.take_if(is_meant)?;
        state.lost_requests += 1;
        Some(stays_open)
    }

    /// Whether this reply is the one to lose; and then, whether its connection stays open.
    fn loses_reply(&self, id: u64, number: u64) -> Option<bool> {
        let mut state = self.state();
        let link = state.live.get(&id)?;
        if link.lose != Some(number) {
            return None;
        }
        state.lost_replies += 1;
        Some(state.holds_lost_reply)
    }

    /// Ends a connection on both sides, once that may be seen.
    fn close(&self, id: u64) {
        if self.may_pass(id)
            && let Some(link) = self.state().live.remove(&id)
        {
            link.shut();
        }
        self.changed.notify_all();
    }
}

/// One direction of a connection.
struct Pipe {
    from: TcpStream,
    to: TcpStream,
    buffer: Vec<u8>,
}

impl Pipe {
    fn new(from: &TcpStream, to: &TcpStream) -> io::Result<Self> {
        Ok(Self {
            from: from.try_clone()?,
            to: to.try_clone()?,
            buffer: Vec::new(),
        })
    }

    /// The next whole request or reply and its bytes; `None` at the end of the connection.
    fn next(&mut self) -> Option<(Reply, Vec<u8>)> {
        loop {
            if let Some((value, length)) = Reply::parse(&self.buffer) {
                return Some((value, self.buffer.drain(..length).collect()));
            }
            let mut piece = [0; 64 * 1024];
            match self.from.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.buffer.extend(&piece[..length]),
            }
        }
    }
}

fn has_word(request: &Reply, word: &str) -> bool {
    match request {
        Reply::Text(text) => text.eq_ignore_ascii_case(word.as_bytes()),
        Reply::List(parts) => parts.iter().any(|part| has_word(part, word)),
        Reply::Nil | Reply::Int(_) | Reply::Error(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::{Duration, Instant};

    use super::Proxy;
    use crate::{Client, Server, wait_until};

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(10);

    fn pair() -> (Server, Proxy) {
        let server = Server::start();
        let proxy = Proxy::to(server.port());
        (server, proxy)
    }

    fn client(proxy: &Proxy) -> Client {
        Client::connect(proxy.port()).unwrap()
    }

    fn is_silent(client: &mut Client) -> bool {
        client.set_patience(SHORT).unwrap();
        let silent = client
            .receive()
            .is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        client.set_patience(LONG).unwrap();
        silent
    }

    #[test]
    fn it_forwards_and_counts() {
        let (server, proxy) = pair();
        let (mut one, mut other) = (client(&proxy), client(&proxy));
        assert_eq!(one.command(&["SET", "key", "value"]).unwrap().text(), "OK");
        assert_eq!(other.command(&["GET", "key"]).unwrap().text(), "value");
        assert_eq!(server.command(&["GET", "key"]).text(), "value");
        assert_eq!(proxy.connections(), 2);
        assert_eq!(proxy.url(), format!("redis://127.0.0.1:{}", proxy.port()));

        drop(one);
        wait_until("one connection is left", || proxy.connections() == 1);
    }

    #[test]
    fn large_values_pass_whole() {
        let (_server, proxy) = pair();
        let mut client = client(&proxy);
        let value = "x".repeat(3_000_000);
        client.command(&["SET", "key", &value]).unwrap();
        assert_eq!(client.command(&["GET", "key"]).unwrap().text(), value);
    }

    #[test]
    fn a_server_that_is_down_is_a_closed_connection() {
        let (server, proxy) = pair();
        let mut client = client(&proxy);
        client.command(&["PING"]).unwrap();
        server.stop();
        assert!(client.command(&["PING"]).is_err());
        assert!(self::client(&proxy).command(&["PING"]).is_err());
        wait_until("no connection is left", || proxy.connections() == 0);
    }

    #[test]
    fn refuse_refuses_the_new_and_keeps_the_old() {
        let (_server, proxy) = pair();
        let mut old = client(&proxy);
        old.command(&["PING"]).unwrap();
        proxy.refuse();
        let error = Client::connect(proxy.port()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(old.command(&["PING"]).unwrap().text(), "PONG");

        proxy.forward();
        assert_eq!(client(&proxy).command(&["PING"]).unwrap().text(), "PONG");
    }

    #[test]
    fn cut_closes_both_sides_of_all_live_connections() {
        let (server, proxy) = pair();
        let (mut one, mut other) = (client(&proxy), client(&proxy));
        for client in [&mut one, &mut other] {
            client.command(&["CLIENT", "SETNAME", "cut"]).unwrap();
        }
        proxy.cut();
        assert_eq!(proxy.connections(), 0);
        assert!(one.command(&["PING"]).is_err());
        assert!(other.command(&["PING"]).is_err());
        wait_until("the server has noticed", || {
            !server
                .command(&["CLIENT", "LIST"])
                .text()
                .contains("name=cut")
        });
        assert_eq!(client(&proxy).command(&["PING"]).unwrap().text(), "PONG");
    }

    #[test]
    fn a_black_hole_holds_everything_until_it_ends() {
        let (server, proxy) = pair();
        let mut old = client(&proxy);
        old.command(&["PING"]).unwrap();
        proxy.black_hole(true);
        old.send(&["SET", "old", "1"]).unwrap();
        let mut new = client(&proxy);
        new.send(&["SET", "new", "1"]).unwrap();
        assert!(is_silent(&mut old));
        assert!(is_silent(&mut new));
        assert_eq!(server.command(&["EXISTS", "old", "new"]).int(), 0);

        proxy.black_hole(false);
        assert_eq!(old.receive().unwrap().text(), "OK");
        assert_eq!(new.receive().unwrap().text(), "OK");
    }

    #[test]
    fn a_black_hole_hides_the_end_of_a_server() {
        let (server, proxy) = pair();
        let mut client = client(&proxy);
        client.command(&["PING"]).unwrap();
        proxy.black_hole(true);
        server.stop();
        assert!(is_silent(&mut client));
        assert_eq!(proxy.connections(), 1);

        proxy.forward();
        let error = client.receive().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn cut_reaches_into_a_black_hole() {
        let (_server, proxy) = pair();
        let mut client = client(&proxy);
        proxy.black_hole(true);
        client.send(&["PING"]).unwrap();
        assert!(is_silent(&mut client));
        proxy.cut();
        assert!(client.receive().is_err());
    }

    #[test]
    fn delay_holds_a_reply_back() {
        let (_server, proxy) = pair();
        let mut client = client(&proxy);
        proxy.delay(SHORT);
        let start = Instant::now();
        client.command(&["PING"]).unwrap();
        assert!(start.elapsed() >= SHORT);
    }

    #[test]
    fn a_lost_reply_is_of_a_command_that_was_carried_out() {
        let (server, proxy) = pair();
        let mut client = client(&proxy);
        proxy.lose_reply_of("XADD");
        assert_eq!(client.command(&["PING"]).unwrap().text(), "PONG");
        let error = client.command(&["xadd", "jobs", "*", "data", "1"]);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(server.command(&["XLEN", "jobs"]).int(), 1);
        assert_eq!(proxy.lost_replies(), 1);

        let mut again = self::client(&proxy);
        let id = again.command(&["XADD", "jobs", "*", "data", "2"]).unwrap();
        assert!(id.text().contains('-'));
        assert_eq!(proxy.lost_replies(), 1);
    }

    #[test]
    fn in_a_pipeline_only_what_precedes_a_lost_reply_is_answered() {
        let (server, proxy) = pair();
        let mut client = client(&proxy);
        proxy.lose_reply_of("INCR");
        client.send(&["SET", "before", "1"]).unwrap();
        client.send(&["INCR", "counter"]).unwrap();
        client.send(&["SET", "after", "1"]).unwrap();
        assert_eq!(client.receive().unwrap().text(), "OK");
        assert!(client.receive().is_err());
        assert_eq!(server.command(&["GET", "counter"]).text(), "1");
        assert!(server.command(&["GET", "after"]).is_nil());
    }

    #[test]
    fn new_connections_are_led_to_another_server() {
        let ((_one, proxy), other) = (pair(), Server::start());
        let mut old = client(&proxy);
        old.command(&["SET", "key", "old"]).unwrap();
        proxy.lead_to(other.port());
        assert_eq!(old.command(&["GET", "key"]).unwrap().text(), "old");
        assert!(client(&proxy).command(&["GET", "key"]).unwrap().is_nil());
    }

    #[test]
    fn a_lost_request_is_not_carried_out() {
        let (server, proxy) = pair();
        let mut client = client(&proxy);
        proxy.lose_request_of("INCR");
        let error = client.command(&["INCR", "key"]).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
        ));
        assert!(server.command(&["GET", "key"]).is_nil());
        assert_eq!(proxy.lost_requests(), 1);
    }

    #[test]
    fn what_is_held_stays_held_on_an_open_connection() {
        let (server, proxy) = pair();
        let (mut one, mut other) = (client(&proxy), client(&proxy));
        proxy.hold_request_of("INCR");
        one.send(&["INCR", "key"]).unwrap();
        assert!(is_silent(&mut one));
        assert!(server.command(&["GET", "key"]).is_nil());

        proxy.hold_reply_of("INCR");
        other.send(&["INCR", "key"]).unwrap();
        wait_until("it is carried out", || proxy.lost_replies() == 1);
        assert!(is_silent(&mut other));
        assert_eq!(server.command(&["GET", "key"]).text(), "1");
    }
}
