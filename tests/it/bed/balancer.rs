//! What a Service does for Pods, for processes of this host: connections go to replicas that are ready, in turn.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// How often replicas are asked whether they are ready; a kubelet and a proxy take longer.
const PROBE: Duration = Duration::from_millis(200);

/// A replica: where it answers, and where it says whether it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Where connections go.
    pub address: SocketAddr,
    /// Its admin endpoints.
    pub admin: SocketAddr,
}

/// Forwards connections until it is dropped.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    backends: Arc<Mutex<Vec<Backend>>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Balancer {
    /// One without replicas yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listen");
        let address = listener.local_addr().expect("an address");
        let backends: Arc<Mutex<Vec<Backend>>> = Arc::default();
        let ready: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let probing = tokio::spawn(probe(backends.clone(), ready.clone()));
        let forwarding = tokio::spawn(forward(listener, ready));
        Self { address, backends, _tasks: [probing, forwarding].map(AbortOnDropHandle::new) }
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Adds a replica.
    pub fn add(&self, backend: Backend) {
        self.backends.lock().unwrap_or_else(PoisonError::into_inner).push(backend);
    }

    /// Takes a replica away, as an endpoint is when its Pod is deleted.
    pub fn remove(&self, backend: Backend) {
        self.backends.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != backend);
    }
}

async fn probe(backends: Arc<Mutex<Vec<Backend>>>, ready: Arc<Mutex<Vec<SocketAddr>>>) {
    loop {
        let known = backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut found = Vec::new();
        for backend in known {
            let answer = reqwest::get(format!("http://{}/readyz", backend.admin)).await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                found.push(backend.address);
            }
        }
        *ready.lock().unwrap_or_else(PoisonError::into_inner) = found;
        tokio::time::sleep(PROBE).await;
    }
}

async fn forward(listener: TcpListener, ready: Arc<Mutex<Vec<SocketAddr>>>) {
    let mut turn = 0usize;
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        let known = ready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(address) = known.get(turn % known.len().max(1)).copied() else { continue };
        turn += 1;
        tokio::spawn(async move {
            let Ok(mut server) = TcpStream::connect(address).await else { return };
            // Either end may hang up at any time, which is what a balancer passes on.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}
