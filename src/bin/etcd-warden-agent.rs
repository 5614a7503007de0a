//! The agent that runs in Pods.

use std::process::ExitCode;

fn main() -> ExitCode {
    etcd_warden::agent::main()
}
