//! The stand-in's own thread: watches, and what hangs on them.

use super::context::{Context, Shared};
use super::dns::Names;
use super::pod::{Event, Worker};
use super::{node, provisioner};
use crate::bed::api_server;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::config::Kubeconfig;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const RETRY: Duration = Duration::from_millis(200);

/// Runs until `stop`. Says through `ready` when Pods are cared for.
pub fn run(
    shared: Arc<Shared>,
    kubeconfig: Kubeconfig,
    ready: oneshot::Sender<Result<(), String>>,
    stop: &CancellationToken,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match prepare(shared, kubeconfig).await {
            Ok(context) => {
                let _ = ready.send(Ok(()));
                // Given up at any point: nothing outside of this process depends on what would have come next.
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = pods(context) => {}
                }
            }
            Err(why) => {
                let _ = ready.send(Err(why));
            }
        }
    });
    // Tasks that are left end with the runtime.
}

async fn prepare(shared: Arc<Shared>, kubeconfig: Kubeconfig) -> Result<Context, String> {
    let client = api_server::client(kubeconfig).await;
    let socket = UdpSocket::bind((shared.runtime.address(), 53)).await.map_err(|e| format!("listen for names: {e}"))?;
    let (claims, claim_changes) = cached::<PersistentVolumeClaim>(&client);
    let (services, service_changes) = cached::<Service>(&client);
    let (slices, slice_changes) = cached::<EndpointSlice>(&client);
    let names = Names { host: shared.runtime.address(), services: services.clone(), slices: slices.clone() };
    let context = Context { client, shared, claims: claims.clone() };
    tokio::spawn(names.serve(socket));
    tokio::spawn(service_changes.for_each(async |_| {}));
    tokio::spawn(slice_changes.for_each(async |_| {}));
    tokio::spawn(each(claim_changes, context.clone(), async |context: Context, claim: PersistentVolumeClaim| {
        provisioner::provision(&context, &claim).await
    }));
    let volumes = watcher(Api::<PersistentVolume>::all(context.client.clone()), watcher::Config::default());
    tokio::spawn(each(
        volumes.default_backoff(),
        context.clone(),
        async |context: Context, volume: PersistentVolume| provisioner::reclaim(&context, &volume).await,
    ));
    node::register(&context).await.map_err(|e| format!("register the Node: {e}"))?;
    tokio::spawn(node::heartbeats(context.clone()));
    claims.wait_until_ready().await.map_err(|e| e.to_string())?;
    services.wait_until_ready().await.map_err(|e| e.to_string())?;
    slices.wait_until_ready().await.map_err(|e| e.to_string())?;
    Ok(context)
}

type Changes<K> = futures::stream::BoxStream<'static, Result<watcher::Event<K>, watcher::Error>>;

/// A cache of all objects of a kind, and the changes that must be read for it to follow.
fn cached<K>(client: &kube::Client) -> (Store<K>, Changes<K>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let changes = watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff();
    (store, reflector::reflector(writer, changes).boxed())
}

/// Calls `act` for every object that is there or has changed, until it succeeds; each object has a task of its own.
async fn each<K, F>(
    changes: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>,
    context: Context,
    act: impl Fn(Context, K) -> F + Clone + Send + 'static,
) where
    K: Clone + Send + 'static,
    F: Future<Output = Result<(), kube::Error>> + Send,
{
    changes
        .for_each(|event| {
            if let Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event {
                let (context, act) = (context.clone(), act.clone());
                tokio::spawn(async move {
                    while let Err(error) = act(context.clone(), object.clone()).await {
                        context.note(format!("a volume could not be made or removed: {error}"));
                        tokio::time::sleep(RETRY).await;
                    }
                });
            }
            async {}
        })
        .await;
}

/// Gives every Pod a task, and tells it of changes.
async fn pods(context: Context) {
    let api: Api<Pod> = Api::all(context.client.clone());
    let mut changes = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut tasks: HashMap<String, UnboundedSender<Event>> = HashMap::new();
    let mut listed = HashSet::new();
    while let Some(change) = changes.next().await {
        let change = match change {
            Ok(change) => change,
            Err(error) => {
                context.note(format!("Pods could not be watched: {error}"));
                continue;
            }
        };
        match change {
            watcher::Event::Apply(pod) => tell(&mut tasks, &context, pod),
            watcher::Event::Delete(pod) => end(&mut tasks, &pod.uid().unwrap_or_default()),
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(pod) => {
                listed.extend(pod.uid());
                tell(&mut tasks, &context, pod);
            }
            watcher::Event::InitDone => {
                let gone: Vec<String> = tasks.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in &gone {
                    end(&mut tasks, uid);
                }
            }
        }
    }
}

/// A task that has ended is not started again: its object is only waiting for its finalizers.
fn tell(tasks: &mut HashMap<String, UnboundedSender<Event>>, context: &Context, pod: Pod) {
    let uid = pod.uid().unwrap_or_default();
    let task = tasks.entry(uid).or_insert_with(|| Worker::start(context.clone(), pod.clone()));
    let _ = task.send(Event::Changed(Box::new(pod)));
}

fn end(tasks: &mut HashMap<String, UnboundedSender<Event>>, uid: &str) {
    if let Some(task) = tasks.remove(uid) {
        let _ = task.send(Event::Gone);
    }
}
