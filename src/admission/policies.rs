//! The policies in force: our own and those that were mounted, taken up as their files change, with the ConfigMaps that
//! they take parameters from. Files with an error in them change nothing: what was in force stays so.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use prometheus::{IntGauge, Opts};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::checks::view::text;
use crate::policy::{File, InForce, LoadError, ParameterSource, PolicySet, builtin_files, load};
use crate::runtime::folder;
use crate::runtime::metrics::Metrics as Registry;
use crate::runtime::readiness::Gate;

/// How often files are looked at. A mounted folder tells nobody reliably that it has changed.
const LOOK: Duration = Duration::from_secs(2);
/// Endings of policy files.
pub const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Why policies could not be taken up. At the start it ends the process; later it is tried again at the next change.
#[derive(Debug, Error)]
pub enum Error {
    /// A folder or file cannot be read.
    #[error("cannot read policies in {}", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Policies are wrong; each error says where.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Load(Vec<LoadError>),
}

impl Error {
    fn count(&self) -> i64 {
        match self {
            Self::Read { .. } => 1,
            Self::Load(errors) => errors.len().try_into().unwrap_or(i64::MAX),
        }
    }
}

/// The policies that come with the program and those in these folders.
pub fn read(folders: &[PathBuf]) -> Result<Vec<File>, Error> {
    let mut files = builtin_files();
    for path in folders {
        let texts = folder::texts(path, &ENDINGS).map_err(|source| Error::Read { path: path.clone(), source })?;
        files.extend(texts.into_iter().map(|(name, text)| File { name, text }));
    }
    Ok(files)
}

/// What is told of it.
#[derive(Clone, Debug)]
struct Told {
    errors: IntGauge,
    taken_up: IntGauge,
    policies: IntGauge,
}

impl Told {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| registry.register(IntGauge::with_opts(Opts::new(name, help))?);
        Ok(Self {
            errors: gauge(
                "etcd_warden_policy_load_errors",
                "Errors in the policy files as they are now, and one more while parameters of theirs cannot be read; while \
                 there are any, the policies of before stay in force.",
            )?,
            taken_up: gauge(
                "etcd_warden_policy_load_timestamp_seconds",
                "Unix time at which the policies in force were taken up.",
            )?,
            policies: gauge("etcd_warden_policies", "Policies in force.")?,
        })
    }
}

/// Where the ConfigMaps are that policies take parameters from, besides those among the policies.
#[derive(Clone)]
pub(super) enum ParametersIn {
    /// In a cluster.
    Cluster(Client),
    /// Nowhere else but here.
    Objects(Vec<Arc<Value>>),
}

/// Keeps the policies in force.
pub(super) struct Keeper {
    folders: Vec<PathBuf>,
    /// The files as they were when they were last looked at.
    seen: Vec<File>,
    /// Read and without an error; in force once its parameters are there.
    loaded: PolicySet,
    parameters: Parameters,
    in_force: InForce,
    /// Whether anything was put in force yet.
    started: bool,
    /// Errors in the files as they are.
    file_errors: i64,
    told: Told,
    gate: Gate,
}

impl Keeper {
    /// Reads the files for the first time.
    pub(super) fn start(
        folders: Vec<PathBuf>,
        parameters: ParametersIn,
        in_force: InForce,
        registry: &Registry,
        gate: Gate,
    ) -> Result<Result<Self, Error>, prometheus::Error> {
        let told = Told::new(registry)?;
        let first = read(&folders).and_then(|files| Ok((load(&files).map_err(Error::Load)?, files)));
        Ok(first.map(|(loaded, seen)| {
            let parameters = Parameters::of(parameters, &loaded);
            let (started, file_errors) = (false, 0);
            let mut keeper = Self { folders, seen, loaded, parameters, in_force, started, file_errors, told, gate };
            keeper.put();
            keeper
        }))
    }

    /// Keeps them for ever.
    pub(super) async fn keep(mut self) {
        let mut look = tokio::time::interval(LOOK);
        loop {
            // Both can be cancelled: a tick that is missed comes again, and a change stays in its channel.
            tokio::select! {
                _ = look.tick() => self.look(),
                Some(change) = self.parameters.changes.recv() => {
                    self.parameters.take(change);
                    self.put();
                }
            }
        }
    }

    fn look(&mut self) {
        let result = match read(&self.folders) {
            Ok(files) if files == self.seen => return,
            Ok(files) => {
                self.seen.clone_from(&files);
                load(&files).map_err(Error::Load)
            }
            Err(error) => {
                // Told once, not every time that it is looked at.
                if std::mem::take(&mut self.seen).is_empty() {
                    return;
                }
                Err(error)
            }
        };
        match result {
            Ok(loaded) => {
                self.file_errors = 0;
                self.parameters.renew(&loaded);
                self.loaded = loaded;
                self.put();
            }
            Err(error) => {
                self.file_errors = error.count();
                self.told.errors.set(self.file_errors);
                match &error {
                    Error::Load(errors) => {
                        for error in errors {
                            error!(%error, "policies not taken up; those of before stay in force");
                        }
                    }
                    Error::Read { source, .. } => {
                        error!(%error, %source, "policies not taken up; those of before stay in force");
                    }
                }
            }
        }
    }

    /// Puts what was loaded in force, if its parameters were read: without them it would refuse what it should not. What
    /// was in force before stays so until then, with the parameters that it had, and goes on being asked: all replicas
    /// read the same files.
    fn put(&mut self) {
        if let Some(missing) = self.parameters.missing() {
            if self.started {
                self.told.errors.set(self.file_errors.saturating_add(1));
                return warn!(parameters = missing, "parameters not read yet; the policies of before stay in force");
            }
            return self.gate.not_ready(format!("parameters not read yet: {missing}"));
        }
        self.started = true;
        self.told.errors.set(self.file_errors);
        let set = self.loaded.with_parameters(self.parameters.all());
        let policies = set.summaries().len();
        self.in_force.put(set);
        self.told.policies.set(policies.try_into().unwrap_or(i64::MAX));
        self.told.taken_up.set(Timestamp::now().as_second());
        self.gate.ready();
        info!(policies, "policies in force");
    }
}

/// The ConfigMaps of the parameters, kept by watches.
struct Parameters {
    from: ParametersIn,
    sources: Vec<ParameterSource>,
    found: Vec<Option<HashMap<Key, Arc<Value>>>>,
    changes: mpsc::Receiver<Change>,
    /// Ends with this value.
    _watches: JoinSet<()>,
}

type Key = (String, String);

/// All ConfigMaps of one source.
struct Change {
    source: usize,
    found: HashMap<Key, Arc<Value>>,
}

impl Parameters {
    fn of(from: ParametersIn, policies: &PolicySet) -> Self {
        let sources = policies.parameter_sources();
        let (sender, changes) = mpsc::channel(16);
        let mut watches = JoinSet::new();
        let found = match &from {
            ParametersIn::Cluster(client) => {
                for (at, source) in sources.iter().enumerate() {
                    watches.spawn(watch(client.clone(), at, source.clone(), sender.clone()));
                }
                vec![None; sources.len()]
            }
            ParametersIn::Objects(objects) => {
                let all: HashMap<Key, Arc<Value>> =
                    objects.iter().map(|object| (key_of(object), object.clone())).collect();
                vec![Some(all); sources.len()]
            }
        };
        Self { from, sources, found, changes, _watches: watches }
    }

    /// For other policies: other watches, unless they are about the same ConfigMaps.
    fn renew(&mut self, policies: &PolicySet) {
        if policies.parameter_sources() == self.sources {
            return;
        }
        let mut renewed = Self::of(self.from.clone(), policies);
        for (source, found) in self.sources.iter().zip(&mut self.found) {
            // What was read of a source stays true until its new watch says otherwise.
            if let Some(same) = renewed.sources.iter().position(|other| other == source)
                && found.is_some()
            {
                renewed.found[same] = found.take();
            }
        }
        *self = renewed;
    }

    fn take(&mut self, change: Change) {
        if let Some(found) = self.found.get_mut(change.source) {
            *found = Some(change.found);
        }
    }

    /// The first source that was not read yet.
    fn missing(&self) -> Option<String> {
        let at = self.found.iter().position(Option::is_none)?;
        let source = self.sources.get(at)?;
        let namespace = source.namespace.as_deref().unwrap_or("every namespace");
        Some(format!("ConfigMap {} in {namespace}", source.name.as_deref().unwrap_or("with the policy's labels")))
    }

    fn all(&self) -> impl Iterator<Item = Arc<Value>> {
        let mut all: HashMap<&Key, &Arc<Value>> = HashMap::new();
        all.extend(self.found.iter().flatten().flatten());
        all.into_values().cloned()
    }
}

async fn watch(client: Client, source: usize, of: ParameterSource, changes: mpsc::Sender<Change>) {
    let api: Api<ConfigMap> = match &of.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let mut config = watcher::Config::default();
    if let Some(name) = &of.name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    if !of.labels.is_empty() {
        let labels: Vec<String> = of.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        config = config.labels(&labels.join(","));
    }
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut found = HashMap::new();
    let mut complete = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                (found, complete) = (HashMap::new(), false);
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => found.extend(entry(object)),
            Ok(Event::InitDone) => complete = true,
            Ok(Event::Delete(object)) => {
                found.remove(&key(&object));
            }
            Err(error) => {
                warn!(%error, "the ConfigMaps that policies take parameters from cannot be read; trying again");
                continue;
            }
        }
        if complete && changes.send(Change { source, found: found.clone() }).await.is_err() {
            return;
        }
    }
}

fn key_of(object: &Value) -> Key {
    (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
}

fn key(object: &ConfigMap) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn entry(mut object: ConfigMap) -> Option<(Key, Arc<Value>)> {
    object.metadata.managed_fields = None;
    let key = key(&object);
    serde_json::to_value(object).ok().map(|value| (key, Arc::new(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::readiness::Readiness;

    fn policy(name: &str, parameters: &str) -> String {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  paramKind: {{apiVersion: v1, kind: ConfigMap}}
  matchConstraints:
    resourceRules:
      - {{apiGroups: [etcd-operator.cozystack.io], apiVersions: ['*'], operations: [CREATE], resources: [etcdclusters]}}
  validations: [{{expression: \"params != null\", message: 'spec.replicas: no parameters'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec:
  policyName: {name}
  validationActions: [Deny]
  paramRef: {{name: {parameters}, namespace: default, parameterNotFoundAction: Deny}}
"
        )
    }

    #[tokio::test]
    async fn parameters_that_cannot_be_read_leave_what_was_in_force_and_ready() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yaml"), policy("a.example", "a")).unwrap();
        // Nobody listens there.
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let (readiness, registry) = (Readiness::default(), Registry::new("program", "1").unwrap());
        let in_force = InForce::default();
        let folders = vec![folder.path().to_owned()];
        let started = Keeper::start(
            folders,
            ParametersIn::Cluster(client),
            in_force.clone(),
            &registry,
            readiness.gate("policies"),
        );
        let mut keeper = started.unwrap().unwrap();
        assert!(readiness.missing()[0].1.contains("ConfigMap a"), "{:?}", readiness.missing());
        keeper.parameters.take(Change { source: 0, found: HashMap::new() });
        keeper.put();
        assert_eq!(readiness.missing(), []);
        let before = in_force.get().summaries().len();

        std::fs::write(folder.path().join("b.yaml"), policy("b.example", "b")).unwrap();
        keeper.look();
        assert_eq!(readiness.missing(), [], "what was in force still is");
        assert_eq!((in_force.get().summaries().len(), keeper.told.errors.get()), (before, 1));
        assert!(keeper.parameters.missing().is_some_and(|missing| missing.contains("ConfigMap b")));

        let unread = keeper.parameters.found.iter().position(Option::is_none).unwrap();
        keeper.parameters.take(Change { source: unread, found: HashMap::new() });
        keeper.put();
        assert_eq!((in_force.get().summaries().len(), keeper.told.errors.get()), (before + 1, 0));
    }
}
