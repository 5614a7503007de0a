//! A Pod's volumes, as folders of the host.

use super::Problem;
use crate::bed::stand_in::kubelet::context::Context;
use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Volume};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Where the volumes are, and which of them are memory.
#[derive(Debug, Default)]
pub struct Volumes {
    pub folders: HashMap<String, Folder>,
    pub memory: Vec<PathBuf>,
}

/// One volume.
#[derive(Clone, Debug)]
pub struct Folder {
    pub path: PathBuf,
    pub read_only: bool,
}

/// Makes what there is to make, below `folder`.
pub async fn prepare(context: &Context, pod: &Pod, folder: &Path) -> Result<Volumes, Problem> {
    let mut volumes = Volumes::default();
    let spec = pod.spec.as_ref().ok_or_else(|| Problem::never("the Pod has no spec"))?;
    let group = spec.security_context.as_ref().and_then(|s| s.fs_group);
    for volume in spec.volumes.iter().flatten() {
        let one = Preparing { context, pod, volume, group, path: folder.join(&volume.name) };
        let made = one.prepare(&mut volumes.memory).await?;
        volumes.folders.insert(volume.name.clone(), made);
    }
    Ok(volumes)
}

struct Preparing<'a> {
    context: &'a Context,
    pod: &'a Pod,
    volume: &'a Volume,
    group: Option<i64>,
    path: PathBuf,
}

impl Preparing<'_> {
    async fn prepare(self, memory: &mut Vec<PathBuf>) -> Result<Folder, Problem> {
        let Volume { empty_dir, secret, config_map, persistent_volume_claim, .. } = self.volume;
        if let Some(empty) = empty_dir {
            self.make_folder(0o777)?;
            if empty.medium.as_deref() == Some("Memory") {
                let bytes = empty.size_limit.as_ref().map_or(Ok(0), |q| bytes(&q.0))?;
                let made = self.context.runtime.memory(&self.path, bytes, self.group).await;
                made.map_err(Problem::wait)?;
                memory.push(self.path.clone());
            }
            return Ok(Folder { path: self.path, read_only: false });
        }
        if let Some(secret) = secret {
            let name = secret.secret_name.clone().unwrap_or_default();
            let found: Option<Secret> = self.read(&name).await?;
            let data = found.map(|s| s.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect());
            let optional = secret.optional.unwrap_or_default();
            return self.write("Secret", &name, data, optional, secret.items.as_deref(), secret.default_mode);
        }
        if let Some(map) = config_map {
            let found: Option<ConfigMap> = self.read(&map.name).await?;
            let data =
                found.map(|m| m.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.into_bytes())).collect());
            let optional = map.optional.unwrap_or_default();
            return self.write("ConfigMap", &map.name, data, optional, map.items.as_deref(), map.default_mode);
        }
        if let Some(claim) = persistent_volume_claim {
            let path = self.claimed(&claim.claim_name).await?;
            self.give_to_group(&path)?;
            return Ok(Folder { path, read_only: claim.read_only.unwrap_or_default() });
        }
        Err(Problem::never(format!(
            "volume {}: the stand-in kubelet knows emptyDir, secret, configMap and persistentVolumeClaim only",
            self.volume.name
        )))
    }

    async fn read<K>(&self, name: &str) -> Result<Option<K>, Problem>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &self.pod.namespace().unwrap_or_default());
        api.get_opt(name).await.map_err(Problem::wait)
    }

    /// The folder of a claim's volume.
    async fn claimed(&self, name: &str) -> Result<PathBuf, Problem> {
        let namespace = self.pod.namespace().unwrap_or_default();
        let key = ObjectRef::<PersistentVolumeClaim>::new(name).within(&namespace);
        let claim = self.context.claims.get(&key);
        let bound = claim.as_ref().and_then(|c| c.spec.as_ref()).and_then(|s| s.volume_name.clone());
        let bound = bound.ok_or_else(|| Problem::wait(format!("claim {name} has no volume")))?;
        let volumes: Api<PersistentVolume> = Api::all(self.context.client.clone());
        let volume = volumes.get(&bound).await.map_err(Problem::wait)?;
        let folder = volume.spec.and_then(|s| s.host_path).map(|h| PathBuf::from(h.path));
        let folder = folder.ok_or_else(|| Problem::never(format!("volume {bound} is not a folder of the host")))?;
        if folder.is_dir() {
            return Ok(folder);
        }
        Err(Problem::wait(format!("the folder of volume {bound} is gone")))
    }

    fn write(
        self,
        kind: &str,
        name: &str,
        data: Option<BTreeMap<String, Vec<u8>>>,
        optional: bool,
        items: Option<&[KeyToPath]>,
        mode: Option<i32>,
    ) -> Result<Folder, Problem> {
        let data = match data {
            Some(data) => data,
            None if optional => BTreeMap::new(),
            None => return Err(Problem::wait(format!("{kind} {name} does not exist"))),
        };
        self.make_folder(0o755)?;
        let all: Vec<KeyToPath> =
            data.keys().map(|k| KeyToPath { key: k.clone(), path: k.clone(), mode: None }).collect();
        for item in items.unwrap_or(&all) {
            let Some(content) = data.get(&item.key) else {
                if optional {
                    continue;
                }
                return Err(Problem::wait(format!("{kind} {name} has no key {}", item.key)));
            };
            let mode = u32::try_from(item.mode.or(mode).unwrap_or(0o644)).unwrap_or(0o644);
            self.write_file(&self.path.join(&item.path), content, mode).map_err(|e| self.failed(&e))?;
        }
        Ok(Folder { path: self.path, read_only: true })
    }

    fn write_file(&self, file: &Path, content: &[u8], mode: u32) -> std::io::Result<()> {
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, content)?;
        if let Some(group) = self.group {
            chown(file, None, Some(id(group)))?;
        }
        let mode = if self.group.is_some() { mode | 0o440 } else { mode };
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode))
    }

    fn make_folder(&self, mode: u32) -> Result<(), Problem> {
        std::fs::create_dir_all(&self.path)
            .and_then(|()| std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode)))
            .map_err(|e| self.failed(&e))?;
        self.give_to_group(&self.path)
    }

    /// As the kubelet does for `fsGroup`: everything becomes the group's, and stays so for new files.
    fn give_to_group(&self, folder: &Path) -> Result<(), Problem> {
        let Some(group) = self.group else { return Ok(()) };
        for entry in walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok) {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_symlink() {
                continue;
            }
            let added = if about.is_dir() { 0o2770 } else { 0o660 };
            let mode = std::fs::Permissions::from_mode(about.permissions().mode() | added);
            chown(entry.path(), None, Some(id(group)))
                .and_then(|()| std::fs::set_permissions(entry.path(), mode))
                .map_err(|e| self.failed(&e))?;
        }
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> Problem {
        Problem::wait(format!("volume {}: {error}", self.volume.name))
    }
}

fn id(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The value of a quantity with a binary suffix, or none.
pub fn bytes(quantity: &str) -> Result<u64, Problem> {
    let end = quantity.find(|c: char| !c.is_ascii_digit()).unwrap_or(quantity.len());
    let (digits, suffix) = quantity.split_at(end);
    let factor = match suffix {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(Problem::never(format!("the stand-in kubelet cannot read the size {quantity:?}"))),
    };
    digits.parse::<u64>().map(|n| n * factor).map_err(|e| Problem::never(format!("the size {quantity:?}: {e}")))
}
