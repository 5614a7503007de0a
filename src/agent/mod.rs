//! The data movers that run in Pods: snapshot, preflight, restore, install-tools.
