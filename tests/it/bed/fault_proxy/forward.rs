//! A forward proxy, as companies have one between their clusters and the world.

use super::Acceptor;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Takes `CONNECT`, and leads every connection to one server, whatever name was asked for: so names can be asked for
/// that only the proxy knows.
#[derive(Debug)]
pub struct ForwardProxy {
    acceptor: Acceptor,
    heads: Arc<Mutex<Vec<String>>>,
}

impl ForwardProxy {
    /// A proxy that leads to this server. With a demand, requests without that text in their head (a
    /// `Proxy-Authorization`, say) are refused.
    pub fn start(server: SocketAddr, demand: Option<&str>) -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (noted, demand) = (Arc::clone(&heads), demand.map(str::to_ascii_lowercase));
        let acceptor = Acceptor::start(move |client, stop| {
            let (noted, demand) = (Arc::clone(&noted), demand.clone());
            async move {
                // A half-way forwarded connection ends with the proxy.
                stop.run_until_cancelled(serve(client, server, demand, noted)).await;
            }
        });
        Self { acceptor, heads }
    }

    /// `HOST:PORT` of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address
    }

    /// The first line of every request so far.
    pub fn asked(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(mut client: TcpStream, server: SocketAddr, demand: Option<String>, noted: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match client.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let first = head.lines().next().unwrap_or_default().to_owned();
    let connects = first.starts_with("CONNECT ");
    noted.lock().unwrap_or_else(PoisonError::into_inner).push(first);
    let welcome = demand.is_none_or(|demand| head.to_ascii_lowercase().contains(&demand));
    let answer = match (connects, welcome) {
        (true, true) => "HTTP/1.1 200 Connection established\r\n\r\n",
        (true, false) => "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        (false, _) => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n",
    };
    if client.write_all(answer.as_bytes()).await.is_ok()
        && connects
        && welcome
        && let Ok(mut server) = TcpStream::connect(server).await
    {
        // Whoever hangs up ends it.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
