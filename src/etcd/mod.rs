//! Talking to an etcd cluster: dial, members, status, snapshot stream, authentication.
