//! `cargo run -p rillkit-servers` starts a server to try things on: it prints the URL and keeps the server until
//! its input ends (Ctrl-D) or it is killed.

#![forbid(unsafe_code)]

use std::io;

use rillkit_servers::Server;

fn main() -> io::Result<()> {
    let server = Server::start();
    println!("{}", server.url());
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
