//! The crash matrix: our server is killed at, or fails in, each of its writes in turn, and every time the world must
//! come to an end that may stand.
//!
//! A [`story::Story`] is told once in peace, which counts the writes, and then once for every [`injection::Injection`].
//! What has become of it is read from etcd's keys and from live objects, never from a status that our server wrote: the
//! crash may have made exactly that wrong.

mod injection;
mod member;
mod run;
mod scene;
mod story;

use injection::Fault;
use run::{Matrix, Selection};

/// At least this many in CI; all of them with `cargo test --test it crash_matrix::whole -- --ignored`.
const SAMPLE: usize = 20;

#[tokio::test]
async fn a_member_comes_up_whatever_happens_to_a_write() {
    let matrix = Matrix { story: member::BringUp, faults: &Fault::ALL };
    matrix.run(Selection::Sample(SAMPLE)).await;
}

#[tokio::test]
#[ignore = "takes long: every fault at every write"]
async fn whole() {
    let matrix = Matrix { story: member::BringUp, faults: &Fault::ALL };
    matrix.run(Selection::All).await;
}
