//! One watch for each kind, shared by all controllers: a local copy of the objects, and word to whoever has to look
//! again when one of them changes.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tracing::warn;

/// The objects of one kind that a controller has to look at.
pub struct Queue<K: Resource<DynamicType = ()>> {
    sender: UnboundedSender<ObjectRef<K>>,
    receiver: UnboundedReceiver<ObjectRef<K>>,
}

impl<K: Resource<DynamicType = ()> + 'static> Default for Queue<K> {
    fn default() -> Self {
        let (sender, receiver) = unbounded();
        Self { sender, receiver }
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Queue<K> {
    /// A way to put objects into the queue from elsewhere.
    #[must_use]
    pub fn sender(&self) -> UnboundedSender<ObjectRef<K>> {
        self.sender.clone()
    }

    /// The queue as the stream of triggers that [`super::frame::run`] takes.
    pub fn into_triggers(self) -> impl Stream<Item = ObjectRef<K>> + Send + 'static
    where
        ObjectRef<K>: Send,
    {
        self.receiver
    }
}

type Listener<K> = Box<dyn Fn(&K) + Send>;

/// A watch of one kind, before it runs.
pub struct Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    api: Api<K>,
    config: watcher::Config,
    writer: Writer<K>,
    listeners: Vec<Listener<K>>,
    trim: fn(&mut K),
    wanted: bool,
}

impl<K> Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A watch of what `api` and `config` select.
    #[must_use]
    pub fn new(api: Api<K>, config: watcher::Config) -> Self {
        Self { api, config, writer: Writer::new(()), listeners: Vec::new(), trim: |_| {}, wanted: false }
    }

    /// Forgets parts of each object that nobody reads, before it is kept. Managed fields are always forgotten.
    #[must_use]
    pub fn trimmed(mut self, trim: fn(&mut K)) -> Self {
        self.trim = trim;
        self
    }

    /// The local copy. Complete once [`Store::wait_until_ready`] returned.
    #[must_use]
    pub fn store(&mut self) -> Store<K> {
        self.wanted = true;
        self.writer.as_reader()
    }

    /// Puts what `map` makes of a changed object into `queue`.
    pub fn notify<T, I>(&mut self, queue: &Queue<T>, map: impl Fn(&K) -> I + Send + 'static)
    where
        T: Resource<DynamicType = ()> + 'static,
        I: IntoIterator<Item = ObjectRef<T>>,
        ObjectRef<T>: Send,
    {
        self.wanted = true;
        let sender = queue.sender();
        self.listeners.push(Box::new(move |object| {
            for name in map(object) {
                // A closed queue is that of a controller that has stopped.
                let _ = sender.unbounded_send(name);
            }
        }));
    }

    /// Puts every changed object itself into `queue`.
    pub fn notify_self(&mut self, queue: &Queue<K>)
    where
        ObjectRef<K>: Send,
    {
        self.notify(queue, |object| [ObjectRef::from_obj(object)]);
    }

    /// Watches for ever; broken watches are begun anew, with pauses that grow. An informer whose store nobody took and
    /// that nobody listens to does nothing.
    #[must_use]
    pub fn run(self) -> BoxFuture<'static, ()>
    where
        ObjectRef<K>: Hash + Eq + Send,
    {
        if self.wanted { Box::pin(self.watch()) } else { Box::pin(std::future::pending()) }
    }

    async fn watch(mut self) {
        let kind = K::kind(&());
        let trim = self.trim;
        let events = watcher(self.api.clone(), self.config.clone()).default_backoff().modify(move |object: &mut K| {
            object.managed_fields_mut().clear();
            trim(object);
        });
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(&event),
                Err(error) => warn!(%kind, error = super::frame::chain(&error), "watch broke; starting it again"),
            }
        }
    }

    /// The copy is brought up to date first, so that whoever is told finds in it what it was told about. A watch that
    /// begins anew tells about what vanished meanwhile, too.
    fn take(&mut self, event: &Event<K>)
    where
        ObjectRef<K>: Hash + Eq,
    {
        let before = match event {
            Event::InitDone => self.writer.as_reader().state(),
            Event::Apply(_) | Event::Delete(_) | Event::Init | Event::InitApply(_) => Vec::new(),
        };
        self.writer.apply_watcher_event(event);
        match event {
            Event::Apply(object) | Event::Delete(object) => self.tell(object),
            Event::Init | Event::InitApply(_) => {}
            Event::InitDone => {
                let store = self.writer.as_reader();
                let gone = before.into_iter().filter(|old| store.get(&ObjectRef::from_obj(old.as_ref())).is_none());
                let all: Vec<Arc<K>> = gone.chain(store.state()).collect();
                for object in all {
                    self.tell(&object);
                }
            }
        }
    }

    fn tell(&self, object: &K) {
        for listener in &self.listeners {
            listener(object);
        }
    }
}

/// The object of this kind that controls `object`, by name; the reader compares UIDs.
pub fn controller_of<K, T>(object: &K) -> Option<ObjectRef<T>>
where
    K: Resource<DynamicType = ()>,
    T: Resource<DynamicType = ()>,
{
    let meta = object.meta();
    let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let ours = owner.kind == T::kind(&()) && owner.api_version.split('/').next() == Some(T::group(&()).as_ref());
    ours.then(|| ObjectRef::new(&owner.name).within(meta.namespace.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    use super::*;

    fn object(name: &str) -> ConfigMap {
        let metadata = ObjectMeta { name: Some(name.into()), namespace: Some("ns".into()), ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn told(queue: &mut Queue<ConfigMap>) -> Vec<String> {
        std::iter::from_fn(|| queue.receiver.try_recv().ok()).map(|name| name.name).collect()
    }

    #[tokio::test]
    async fn a_watch_that_begins_anew_tells_about_what_vanished() {
        let client = kube::Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| async {
                Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no server"))
            }),
            "ns",
        );
        let mut informer: Informer<ConfigMap> = Informer::new(Api::all(client), watcher::Config::default());
        let mut queue = Queue::default();
        informer.notify_self(&queue);

        for event in [Event::Init, Event::InitApply(object("stays")), Event::InitApply(object("goes"))] {
            informer.take(&event);
        }
        assert_eq!(told(&mut queue), [""; 0], "told before the copy was complete");
        informer.take(&Event::InitDone);
        let mut first = told(&mut queue);
        first.sort();
        assert_eq!(first, ["goes", "stays"]);

        for event in [Event::Init, Event::InitApply(object("stays")), Event::InitDone] {
            informer.take(&event);
        }
        assert_eq!(told(&mut queue), ["goes", "stays"]);
        assert_eq!(informer.store().state().len(), 1);
    }

    #[test]
    fn only_a_controller_of_the_right_kind_is_told() {
        let mut child = object("child");
        child.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "owner".into(),
            uid: "1".into(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        assert!(controller_of::<_, crate::api::etcdcluster::EtcdCluster>(&child).is_none());
        let owner = controller_of::<_, k8s_openapi::api::apps::v1::ReplicaSet>(&child).unwrap();
        assert_eq!((owner.name.as_str(), owner.namespace.as_deref()), ("owner", Some("ns")));
    }
}
