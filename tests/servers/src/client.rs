//! A blocking connection that sends one command at a time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Reply;
use crate::wait::PATIENCE;

/// A plain connection to a server or a [`Proxy`](crate::Proxy). It keeps its state (`SELECT`, `MULTI`).
#[derive(Debug)]
pub struct Client {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects to a loopback port.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(port: u16) -> io::Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        let mut client = Self {
            socket,
            received: Vec::new(),
        };
        client.set_patience(PATIENCE)?;
        Ok(client)
    }

    /// Gives up on a reply after `patience`, which is 20 seconds unless set.
    ///
    /// # Errors
    /// When `patience` is zero.
    pub fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(patience))
    }

    /// Sends a command and returns its reply. What the server refuses is an `Ok` with [`Reply::Error`].
    ///
    /// # Errors
    /// When the connection is broken (`UnexpectedEof` and the like) or silent for too long (`WouldBlock`).
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Reply> {
        self.send(arguments)?;
        self.receive()
    }

    /// Sends a command and leaves its reply for [`receive`](Self::receive), so that several are in flight.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            let argument = argument.as_ref();
            request.extend(format!("${}\r\n", argument.len()).into_bytes());
            request.extend(argument);
            request.extend(b"\r\n");
        }
        self.socket.write_all(&request)
    }

    /// The next reply.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn receive(&mut self) -> io::Result<Reply> {
        loop {
            if let Some((reply, length)) = Reply::parse(&self.received) {
                self.received.drain(..length);
                return Ok(reply);
            }
            let mut piece = [0; 16 * 1024];
            match self.socket.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.received.extend(&piece[..length]),
            }
        }
    }
}
