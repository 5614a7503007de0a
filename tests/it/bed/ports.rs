//! Free ports, many at once, over all processes of this host that use the bed.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};

// Below what Linux takes for outgoing connections, so that nobody gets one of these by accident between the moment it
// is found free and the moment a daemon listens on it.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A TCP port that is ours until this value is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// Takes a port on which nobody listens and which no other test process has taken.
    pub fn take() -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "only spreads processes over the range")]
        let offset = (std::process::id().wrapping_mul(97) % u32::from(COUNT)) as u16;
        for _ in 0..COUNT {
            let number = FIRST + (offset + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
            let Some(claim) = claim(number) else { continue };
            if TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).is_ok() {
                return Self { number, _claim: claim };
            }
        }
        panic!("no port is free between {FIRST} and {}", FIRST + COUNT);
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Takes a name that only one process can have, and that is free again when the process is gone: a socket outside of the
/// file system.
fn claim(number: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("etcd-warden-test-port-{number}")).expect("a short name");
    UnixListener::bind_addr(&name).ok()
}
