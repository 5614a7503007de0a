//! Faults on connections, whatever they carry.

use super::rules::{On, RuleId, Rules};
use super::{Acceptor, Resetter};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// What happens to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpFault {
    /// It is accepted and reset at once.
    Reset,
    /// It is accepted, and nothing ever comes through.
    Hang,
    /// Everything works, this much later.
    Delay(Duration),
    /// It is reset when the server has sent this many bytes.
    CutAnswer(usize),
    /// It is reset when the client has sent this many bytes.
    CutRequest(usize),
}

/// Forwards connections to a server, byte by byte.
#[derive(Debug)]
pub struct TcpProxy {
    acceptor: Acceptor,
    rules: Arc<Rules<TcpFault>>,
    open: Arc<Mutex<CancellationToken>>,
}

impl TcpProxy {
    /// A proxy for the server at this address.
    pub fn start(server: SocketAddr) -> Self {
        let rules = Arc::new(Rules::new());
        let open = Arc::new(Mutex::new(CancellationToken::new()));
        let (passing, opened) = (Arc::clone(&rules), Arc::clone(&open));
        let acceptor = Acceptor::start(move |client, stop| {
            let fault = passing.pass("CONNECT", &server.to_string());
            let cut = opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                let resetter = Resetter::of(&client);
                // A half-way forwarded connection is dropped on purpose: that is the fault.
                tokio::select! {
                    () = forward(client, server, fault, &resetter) => {}
                    () = stop.cancelled() => {}
                    () = cut.cancelled() => resetter.arm(),
                }
            }
        });
        Self { acceptor, rules, open }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address
    }

    /// Adds a rule for new connections.
    pub fn inject(&self, on: On, fault: TcpFault) -> RuleId {
        self.rules.add(on, fault)
    }

    /// Removes a rule.
    pub fn remove(&self, rule: RuleId) {
        self.rules.remove(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules.clear();
    }

    /// Resets every connection that is open now. With a rule of [`TcpFault::Reset`] for new ones, nothing gets through.
    pub fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.cancel();
        *open = CancellationToken::new();
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.rules.count(&On::any())
    }

    /// How often a rule was applied.
    pub fn applied(&self, rule: RuleId) -> usize {
        self.rules.applied(rule)
    }
}

async fn forward(client: TcpStream, server: SocketAddr, fault: Option<TcpFault>, resetter: &Resetter) {
    let (mut request_limit, mut answer_limit) = (None, None);
    match fault {
        None => {}
        Some(TcpFault::Reset) => return resetter.arm(),
        Some(TcpFault::Hang) => std::future::pending().await,
        Some(TcpFault::Delay(time)) => tokio::time::sleep(time).await,
        Some(TcpFault::CutAnswer(bytes)) => answer_limit = Some(bytes),
        Some(TcpFault::CutRequest(bytes)) => request_limit = Some(bytes),
    }
    let Ok(server) = TcpStream::connect(server).await else {
        return resetter.arm();
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = copy(from_client, to_server, request_limit);
    let down = copy(from_server, to_client, answer_limit);
    // `try_join` drops the other direction when one fails, as a reset does.
    if tokio::try_join!(up, down).is_err() {
        resetter.arm();
    }
}

/// Copies until the end, or fails when `limit` bytes have been copied.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    limit: Option<usize>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut left = limit.unwrap_or(usize::MAX);
    loop {
        let most = buffer.len().min(left);
        let read = from.read(&mut buffer[..most]).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        left -= read;
        if left == 0 {
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
    }
}
