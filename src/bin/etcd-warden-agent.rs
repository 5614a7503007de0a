//! The agent that runs in Pods.

fn main() {}
