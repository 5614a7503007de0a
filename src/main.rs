//! The etcd-warden program: parse, wire, run.

fn main() {}
