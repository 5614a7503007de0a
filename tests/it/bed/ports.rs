//! Free ports, many at once, over all processes of this host that use the bed.

use super::tools::run_root;
use std::fs::{File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
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
    _lock: File,
}

impl Port {
    /// Takes a port on which nobody listens and which no other test process has taken.
    pub fn take() -> Self {
        let folder = run_root().join("ports");
        std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("create {}: {e}", folder.display()));
        #[expect(clippy::cast_possible_truncation, reason = "only spreads processes over the range")]
        let offset = (std::process::id().wrapping_mul(97) % u32::from(COUNT)) as u16;
        for _ in 0..COUNT {
            let number = FIRST + (offset + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
            let lock = File::create(folder.join(number.to_string())).expect("a lock file for a port");
            match lock.try_lock() {
                Ok(()) if TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).is_ok() => {
                    return Self { number, _lock: lock };
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => panic!("lock {}/{number}: {e}", folder.display()),
            }
        }
        panic!("no port is free between {FIRST} and {}", FIRST + COUNT);
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}
