//! Between a client of ours and a real server, to make go wrong what goes wrong in the world.
//!
//! [`TcpProxy`] knows bytes only, so it suits any server, with or without TLS. [`HttpProxy`] ends TLS on both sides and
//! can choose requests by method and path. [`ForwardProxy`] makes nothing go wrong: clients ask it by `CONNECT`. Rules can be added and removed while they run, and what went through is
//! counted. Both live on a thread of their own: a test that blocks does not stop them.

mod forward;
mod http;
mod rules;
mod tcp;

pub use forward::ForwardProxy;
pub use http::{HttpFault, HttpProxy, Protocol, Upstream};
pub use rules::{On, RuleId};
pub use tcp::{TcpFault, TcpProxy};

use super::use_ring;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A thread that accepts connections until this is dropped, which also ends the connections.
#[derive(Debug)]
struct Acceptor {
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Acceptor {
    /// Listens on a free port of loopback; `serve` is called once for every connection.
    fn start<F>(serve: impl Fn(TcpStream, CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        use_ring();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen on loopback");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("a listener has an address");
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                // Both can be dropped half-way: nothing has been taken from either.
                while let Some(accepted) = stopped.run_until_cancelled(listener.accept()).await {
                    match accepted {
                        Ok((stream, _)) => {
                            tokio::task::spawn_local(serve(stream, stopped.child_token()));
                        }
                        Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    }
                }
            });
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps a second handle of a connection, so that it can be reset whoever owns the first.
struct Resetter(std::os::fd::OwnedFd);

impl Resetter {
    fn of(stream: &TcpStream) -> Self {
        use std::os::fd::AsFd;
        Self(stream.as_fd().try_clone_to_owned().expect("a second handle of a connection"))
    }

    /// From now on, closing the connection sends RST in place of FIN, and what is on its way is lost.
    fn arm(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.0, Some(Duration::ZERO));
    }
}
