//! An authority of its own for each test, made by the `openssl` program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::server::Directory;

/// A certificate authority, and what it has signed: one certificate for the server `localhost`, and one for a
/// client. They go from the disk when this value goes.
#[derive(Debug)]
pub struct Certificates {
    directory: Directory,
}

/// A certificate and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

impl Certificates {
    /// Makes all of them, valid for a day.
    ///
    /// # Panics
    /// When there is no `openssl` program.
    #[must_use]
    pub fn new() -> Self {
        let directory = Directory::new();
        let new_key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ];
        let own = [
            "req",
            "-x509",
            "-days",
            "1",
            "-subj",
            "/CN=tests",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ];
        openssl(&directory.0, &[&own[..], &new_key].concat());
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        fs::write(directory.0.join("server.names"), names).expect("the directory can be written");
        fs::write(
            directory.0.join("client.names"),
            "subjectAltName=DNS:client",
        )
        .expect("the directory can be written");
        for name in ["server", "client"] {
            let (subject, file) = (format!("/CN={name}"), |end: &str| format!("{name}.{end}"));
            let (key, request, names, pem) = (file("key"), file("csr"), file("names"), file("pem"));
            let ask = [
                "req", "-new", "-subj", &subject, "-keyout", &key, "-out", &request,
            ];
            openssl(&directory.0, &[&ask[..], &new_key].concat());
            openssl(
                &directory.0,
                &[
                    "x509",
                    "-req",
                    "-in",
                    &request,
                    "-days",
                    "1",
                    "-CA",
                    "ca.pem",
                    "-CAkey",
                    "ca.key",
                    "-CAcreateserial",
                    "-extfile",
                    &names,
                    "-out",
                    &pem,
                ],
            );
        }
        Self { directory }
    }

    /// The authority's own certificate, in PEM form.
    #[must_use]
    pub fn authority(&self) -> Vec<u8> {
        self.read("ca.pem")
    }

    /// What a client shows.
    #[must_use]
    pub fn client(&self) -> Certificate {
        Certificate {
            certificate: self.read("client.pem"),
            key: self.read("client.key"),
        }
    }

    /// A file of these: `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("the certificates stay as long as this value")
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

fn openssl(directory: &Path, arguments: &[&str]) {
    let output = Command::new("openssl")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("no `openssl` that runs ({error}); `scripts/apt openssl` installs it")
        });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`openssl {arguments:?}` failed: {said}"
    );
}
