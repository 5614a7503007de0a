//! The bundle in the live configurations, which several replicas write: none removes an authority that another one may
//! be serving with.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use crate::admission::tls::Bundle;

/// The bundle that every entry carries. What cannot be read is nobody's trust.
pub(super) fn bundle_of(live: &ValidatingWebhookConfiguration) -> Bundle {
    let mut entries = live.webhooks.iter().flatten().map(|entry| {
        let bytes = entry.client_config.ca_bundle.as_ref().map(|bytes| bytes.0.as_slice()).unwrap_or_default();
        Bundle::parse(&String::from_utf8_lossy(bytes)).unwrap_or_default()
    });
    let first = entries.next().unwrap_or_default();
    entries.fold(first, |common, entry| common.filter(|der| entry.certificates().any(|other| other == der)))
}

/// Authorities in the live bundle that are not our own, and since when they were not.
#[derive(Debug, Default)]
pub(super) struct Others {
    since: HashMap<CertificateDer<'static>, Instant>,
}

impl Others {
    /// Those that stay: until they end, or for as long as a leaf lives that another replica may have been serving when
    /// they ceased to be ours.
    pub(super) fn still_in_use(&mut self, own: &Bundle, live: &Bundle, leaf: Duration, now: Timestamp) -> Bundle {
        let foreign = live.alive(now).filter(|der| !own.certificates().any(|mine| mine == der));
        self.since.retain(|der, _| foreign.certificates().any(|other| other == der));
        foreign.filter(|der| self.since.entry(der.clone()).or_insert_with(Instant::now).elapsed() < leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::tls::Authority;

    fn bundle(now: Timestamp, lifetime: Duration) -> Bundle {
        Bundle::parse(Authority::generate(now, lifetime).unwrap().certificate_pem()).unwrap()
    }

    #[test]
    fn anothers_authority_stays_until_no_leaf_of_it_can_be_served() {
        let now = Timestamp::now();
        let hour = Duration::from_hours(1);
        let (own, other, ended) = (bundle(now, hour), bundle(now, hour), bundle(now - hour * 3, hour));
        let live = own.clone().and(&other).and(&ended);
        let mut others = Others::default();
        assert_eq!(others.still_in_use(&own, &live, hour, now), other);
        assert_eq!(others.still_in_use(&own, &live, hour, now), other);
        assert!(others.still_in_use(&own, &live, Duration::ZERO, now).is_empty());
        // It became ours in the meantime: the time starts anew when it ceases to be.
        assert!(others.still_in_use(&live, &live, hour, now).is_empty());
        assert!(others.since.is_empty());
    }
}
