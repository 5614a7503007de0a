//! The cluster's DNS: answers from Services and EndpointSlices, as the real one does, with its times to live. A Service
//! with a cluster IP has no such address here (there is no kube-proxy): its name stands for the Pods behind it.

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, PTR, SOA};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;
use tokio::net::UdpSocket;

/// The domain of the cluster.
pub const DOMAIN: &str = "cluster.local";
/// Names below it are the host, for servers that tests run there.
pub const HOST_DOMAIN: &str = "bed";
/// How long an answer may be kept, in seconds: what CoreDNS says of Services, and of names that do not exist.
const KEEP: u32 = 5;

/// What names are answered from.
#[derive(Clone)]
pub struct Names {
    pub host: Ipv4Addr,
    pub services: Store<Service>,
    pub slices: Store<EndpointSlice>,
}

impl Names {
    /// Answers on the host's address, until the task is aborted.
    pub async fn serve(self, socket: UdpSocket) {
        let mut buffer = [0_u8; 512];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
            let Ok(question) = Message::from_vec(&buffer[..length]) else { continue };
            if let Ok(answer) = self.answer(question).to_vec() {
                // A lost answer is asked for again, as with any DNS over UDP.
                let _ = socket.send_to(&answer, from).await;
            }
        }
    }

    fn answer(&self, question: Message) -> Message {
        let mut answer = question.into_response();
        answer.additionals.clear();
        answer.edns = None;
        answer.metadata.authoritative = true;
        let Some(query) = answer.queries.first().cloned() else { return answer };
        if query.query_type() == RecordType::PTR {
            for name in self.names(&query.name().to_string()) {
                answer.add_answer(Record::from_rdata(query.name().clone(), KEEP, RData::PTR(PTR(name))));
            }
            if answer.answers.is_empty() {
                answer.metadata.response_code = ResponseCode::NXDomain;
            }
            return answer;
        }
        match self.addresses(&query.name().to_string().to_lowercase()) {
            Some(addresses) if query.query_type() == RecordType::A => {
                for address in addresses {
                    answer.add_answer(Record::from_rdata(query.name().clone(), KEEP, RData::A(A(address))));
                }
            }
            Some(_) => {}
            None => {
                answer.metadata.response_code = ResponseCode::NXDomain;
                let zone = Name::from_str(DOMAIN).expect("a name");
                let soa = SOA::new(zone.clone(), zone.clone(), 1, 7200, 1800, 86400, KEEP);
                answer.add_authority(Record::from_rdata(zone, KEEP, RData::SOA(soa)));
            }
        }
        answer
    }

    /// The names of an address, as `4.3.2.1.in-addr.arpa.` asks for them: those of Pods with a host name.
    fn names(&self, reversed: &str) -> Vec<Name> {
        let Some(labels) = reversed.strip_suffix(".in-addr.arpa.") else { return Vec::new() };
        let address = labels.split('.').rev().collect::<Vec<_>>().join(".");
        let of_slice = |slice: Arc<EndpointSlice>| {
            let service = slice.labels().get("kubernetes.io/service-name").cloned().unwrap_or_default();
            let namespace = slice.namespace().unwrap_or_default();
            let endpoints = slice.endpoints.iter().filter(|endpoint| endpoint.addresses.contains(&address));
            let names = endpoints
                .filter_map(|endpoint| endpoint.hostname.as_ref())
                .filter_map(|hostname| Name::from_str(&format!("{hostname}.{service}.{namespace}.svc.{DOMAIN}.")).ok());
            names.collect::<Vec<_>>()
        };
        self.slices.state().into_iter().flat_map(of_slice).collect()
    }

    /// The addresses of a name, absent when there is no such name.
    fn addresses(&self, name: &str) -> Option<Vec<Ipv4Addr>> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.strip_suffix(HOST_DOMAIN).is_some_and(|rest| rest.ends_with('.')) {
            return Some(vec![self.host]);
        }
        let labels: Vec<&str> = name.strip_suffix(&format!(".svc.{DOMAIN}"))?.split('.').collect();
        let (hostname, service, namespace) = match labels[..] {
            [service, namespace] => (None, service, namespace),
            [hostname, service, namespace] => (Some(hostname), service, namespace),
            _ => return None,
        };
        self.services.get(&ObjectRef::<Service>::new(service).within(namespace))?;
        let addresses = self.endpoints(namespace, service, hostname);
        // A Service without endpoints exists and has no address; a Pod that is not among them does not exist.
        (hostname.is_none() || !addresses.is_empty()).then_some(addresses)
    }

    fn endpoints(&self, namespace: &str, service: &str, hostname: Option<&str>) -> Vec<Ipv4Addr> {
        let of_service = |slice: &Arc<EndpointSlice>| {
            slice.namespace().as_deref() == Some(namespace)
                && slice.labels().get("kubernetes.io/service-name").is_some_and(|name| name == service)
        };
        let mut addresses: Vec<Ipv4Addr> = self
            .slices
            .state()
            .iter()
            .filter(|slice| of_service(slice))
            .flat_map(|slice| slice.endpoints.clone())
            .filter(|endpoint| endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true))
            .filter(|endpoint| hostname.is_none() || endpoint.hostname.as_deref() == hostname)
            .flat_map(|endpoint| endpoint.addresses)
            .filter_map(|address| address.parse().ok())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}
