//! Which strategy a BackupClass gives to an application.

use crate::api::backupclass::{BackupClass, BackupClassStrategy};
use crate::api::common::TypedReference;
use crate::api::strategy::{STRATEGY_GROUP, STRATEGY_KIND, WARDEN_STRATEGY_GROUP};

/// The groups in which the `Etcd` strategy exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyGroup {
    /// Upstream's.
    Upstream,
    /// Our own.
    Warden,
}

/// What a class says about an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolution<'a> {
    /// The first entry for the application leads to the `Etcd` strategy.
    Etcd(StrategyGroup, &'a BackupClassStrategy),
    /// The first entry for the application leads to a strategy that others handle.
    Elsewhere,
    /// There is no entry for the application.
    NoEntry,
}

/// The group in which a reference names the `Etcd` strategy, if it names it.
#[must_use]
pub fn etcd_strategy(reference: &TypedReference) -> Option<StrategyGroup> {
    match (reference.api_group.as_deref(), reference.kind.as_str()) {
        (Some(STRATEGY_GROUP), STRATEGY_KIND) => Some(StrategyGroup::Upstream),
        (Some(WARDEN_STRATEGY_GROUP), STRATEGY_KIND) => Some(StrategyGroup::Warden),
        _ => None,
    }
}

/// The first entry of a class whose application has this group (empty means the platform's) and kind.
#[must_use]
pub fn resolve<'a>(class: &'a BackupClass, application: &TypedReference) -> Resolution<'a> {
    let entry = class.spec.strategies.iter().find(|entry| {
        entry.application.group() == application.application_group() && entry.application.kind == application.kind
    });
    match entry {
        None => Resolution::NoEntry,
        Some(entry) => match etcd_strategy(&entry.strategy_ref) {
            Some(group) => Resolution::Etcd(group, entry),
            None => Resolution::Elsewhere,
        },
    }
}

/// Whether backups of an application are ours: its class leads to the `Etcd` strategy, or, where there is no class or it
/// says nothing, it is the platform's etcd.
#[must_use]
pub fn leads_to_etcd(class: Option<&BackupClass>, application: &TypedReference) -> bool {
    match class.map(|class| resolve(class, application)) {
        Some(Resolution::Etcd(..)) => true,
        Some(Resolution::Elsewhere) => false,
        Some(Resolution::NoEntry) | None => application.is_etcd_application(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::backupclass::{ApplicationKind, BackupClassSpec};

    fn entry(group: Option<&str>, kind: &str, strategy: (&str, &str), name: &str) -> BackupClassStrategy {
        BackupClassStrategy {
            application: ApplicationKind { api_group: group.map(ToOwned::to_owned), kind: kind.to_owned() },
            strategy_ref: TypedReference {
                api_group: Some(strategy.0.to_owned()),
                kind: strategy.1.to_owned(),
                name: name.to_owned(),
            },
            parameters: None,
        }
    }

    fn class(strategies: Vec<BackupClassStrategy>) -> BackupClass {
        BackupClass::new("class", BackupClassSpec { strategies })
    }

    fn application(group: Option<&str>, kind: &str) -> TypedReference {
        TypedReference { api_group: group.map(ToOwned::to_owned), kind: kind.to_owned(), name: "x".to_owned() }
    }

    #[test]
    fn the_first_entry_of_the_kind_wins() {
        let class = class(vec![
            entry(Some("apps.cozystack.io"), "Postgres", (STRATEGY_GROUP, "CNPG"), "a"),
            entry(Some("other.io"), "Etcd", (STRATEGY_GROUP, "Job"), "b"),
            entry(None, "Etcd", (STRATEGY_GROUP, "Etcd"), "c"),
            entry(Some(""), "Etcd", (WARDEN_STRATEGY_GROUP, "Etcd"), "d"),
        ]);
        for group in [None, Some(""), Some("apps.cozystack.io")] {
            match resolve(&class, &application(group, "Etcd")) {
                Resolution::Etcd(StrategyGroup::Upstream, entry) => assert_eq!(entry.strategy_ref.name, "c"),
                other => panic!("{group:?}: {other:?}"),
            }
        }
        assert_eq!(resolve(&class, &application(None, "Postgres")), Resolution::Elsewhere);
        assert_eq!(resolve(&class, &application(None, "Redis")), Resolution::NoEntry);
    }

    #[test]
    fn only_two_groups_have_the_etcd_strategy() {
        let reference = |group: Option<&str>, kind: &str| TypedReference {
            api_group: group.map(ToOwned::to_owned),
            kind: kind.to_owned(),
            name: "x".to_owned(),
        };
        assert_eq!(etcd_strategy(&reference(Some(WARDEN_STRATEGY_GROUP), "Etcd")), Some(StrategyGroup::Warden));
        for (group, kind) in [(None, "Etcd"), (Some(""), "Etcd"), (Some("x.io"), "Etcd"), (Some(STRATEGY_GROUP), "Job")]
        {
            assert_eq!(etcd_strategy(&reference(group, kind)), None);
        }
    }
}
