//! Who owns an object: always told by UID, never by name, for names are used again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

/// A controller reference to `owner` that blocks its foreground deletion; `None` while the owner has no UID, which is
/// to say before it was created.
#[must_use]
pub fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid()?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

/// The UID of the object's controller, if it has one.
#[must_use]
pub fn controller_uid(meta: &ObjectMeta) -> Option<&str> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// Whether the object's controller has this UID.
#[must_use]
pub fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    !uid.is_empty() && controller_uid(meta) == Some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namesake_with_another_uid_is_not_the_owner() {
        let owner = |uid: &str| OwnerReference {
            name: "etcd".into(),
            uid: uid.into(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        let meta = ObjectMeta { owner_references: Some(vec![owner("old")]), ..ObjectMeta::default() };
        assert!(is_controlled_by(&meta, "old"));
        assert!(!is_controlled_by(&meta, "new"));
        assert!(!is_controlled_by(&ObjectMeta::default(), ""));
    }
}
