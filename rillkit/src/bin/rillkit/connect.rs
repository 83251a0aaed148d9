//! The server that the arguments or the environment name.

use rillkit::{Broker, Server};

use crate::failure::Failure;

pub(crate) fn broker(url: Option<&str>) -> Result<Broker, Failure> {
    let named = url.map(str::to_owned).or_else(|| variable("REDIS_URL"));
    if named.is_some_and(|url| url.starts_with("memory://")) {
        let text = "`memory://` is a store in one process, and nobody else sees it; expected the URL of \
                    a server, such as `redis://localhost:6379`";
        return Err(Failure::Usage(text.to_owned()));
    }
    let Some(url) = url else {
        return Ok(Broker::from_env()?);
    };
    let mut server = Server::at(url)?;
    // What a URL cannot say is in the environment, as for workers.
    if let Some(pem) = file("REDIS_CA_CERT")? {
        server = server.ca_certificate(pem);
    }
    if let (Some(certificate), Some(key)) = (file("REDIS_CLIENT_CERT")?, file("REDIS_CLIENT_KEY")?)
    {
        server = server.client_certificate(certificate, key);
    }
    if let Some(username) = variable("REDIS_SENTINEL_USERNAME") {
        server = server.sentinel_username(username);
    }
    if let Some(password) = variable("REDIS_SENTINEL_PASSWORD") {
        server = server.sentinel_password(password);
    }
    Ok(Broker::on_server(server)?)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn file(name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let Some(path) = variable(name) else {
        return Ok(None);
    };
    let read = std::fs::read(&path).map_err(|error| {
        let path = path.escape_debug();
        Failure::Usage(format!(
            "`{name}` is `{path}`, and that file cannot be read: {error}"
        ))
    });
    read.map(Some)
}
