//! The crash matrix: our server is killed at, or fails in, each of its writes in turn, and every time the world must
//! come to an end that may stand.
//!
//! A [`story::Story`] is told once in peace, which counts the writes, and then once for every [`injection::Injection`].
//! What has become of it is read from etcd's keys and from live objects, never from a status that our server wrote: the
//! crash may have made exactly that wrong.

mod cluster;
mod injection;
mod member;
mod run;
mod scene;
mod snapshot;
mod story;

use injection::Fault;
use run::{Matrix, Selection};

/// At least this many in CI; all of them with `cargo test --test it crash_matrix::whole -- --ignored`.
const SAMPLE: usize = 20;
/// So many stories are told side by side, where they are short of nothing but time.
const AT_ONCE: usize = 5;

#[tokio::test]
async fn a_member_comes_up_whatever_happens_to_a_write() {
    let matrix = Matrix { story: member::BringUp, faults: &Fault::ALL };
    matrix.run(Selection::Sample(SAMPLE)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_comes_up_whatever_happens_to_a_write() {
    let matrix = Matrix { story: cluster::Grow, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::Sample(SAMPLE), AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_taken_once_whatever_happens_to_a_write() {
    let matrix = Matrix { story: snapshot::Take, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::Sample(SAMPLE), AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long: every fault at every write"]
async fn whole_clusters() {
    let matrix = Matrix { story: cluster::Grow, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::All, AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes long: every fault at every write"]
async fn whole_snapshots() {
    let matrix = Matrix { story: snapshot::Take, faults: &Fault::ALL };
    matrix.run_side_by_side(Selection::All, AT_ONCE).await;
}

#[tokio::test]
#[ignore = "takes long: every fault at every write"]
async fn whole() {
    let matrix = Matrix { story: member::BringUp, faults: &Fault::ALL };
    matrix.run(Selection::All).await;
}
