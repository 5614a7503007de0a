//! Probes, asked from the host's side of the Pods' network as the kubelet does.

use super::{Event, Told};
use k8s_openapi::api::core::v1::{Container, ContainerPort, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;

/// What a started container's probes say, sent as events until the task is aborted.
pub struct Probes {
    pub container: Container,
    pub index: usize,
    pub id: String,
    pub address: Ipv4Addr,
    pub divisor: u32,
    pub to: UnboundedSender<Event>,
}

#[derive(Clone, Copy, PartialEq)]
enum Until {
    Success,
    Failure,
    Never,
}

impl Probes {
    /// Runs them.
    pub async fn run(self) {
        if let Some(probe) = &self.container.startup_probe
            && !self.follow(probe, Until::Success, |_| {}).await
        {
            self.say(Told::Unhealthy);
            return;
        }
        self.say(Told::Started);
        let readiness = async {
            if let Some(probe) = &self.container.readiness_probe {
                self.follow(probe, Until::Never, |ready| self.say(Told::Ready(ready))).await;
            } else {
                self.say(Told::Ready(true));
            }
        };
        let liveness = async {
            if let Some(probe) = &self.container.liveness_probe {
                self.follow(probe, Until::Failure, |_| {}).await;
                self.say(Told::Unhealthy);
            }
        };
        tokio::join!(readiness, liveness);
    }

    fn say(&self, told: Told) {
        // A worker that has ended does not listen any more.
        let _ = self.to.send(Event::Told { index: self.index, id: self.id.clone(), told });
    }

    /// Probes until what is waited for has happened, which is returned; `changed` hears of every change.
    async fn follow(&self, probe: &Probe, until: Until, changed: impl Fn(bool)) -> bool {
        let seconds = |value: Option<i32>, default: u32| {
            Duration::from_secs(value.and_then(|v| u32::try_from(v).ok()).unwrap_or(default).into())
        };
        let threshold = |value: Option<i32>, default: u32| value.and_then(|v| u32::try_from(v).ok()).unwrap_or(default);
        let needed =
            [threshold(probe.failure_threshold, 3).max(1), threshold(probe.success_threshold, 1).max(1)].map(u64::from);
        tokio::time::sleep(seconds(probe.initial_delay_seconds, 0) / self.divisor).await;
        let mut said = None;
        let (mut last, mut run) = (false, 0);
        loop {
            let within = seconds(probe.timeout_seconds, 1);
            let success = tokio::time::timeout(within, self.ask(probe, within)).await.unwrap_or(false);
            run = if success == last { run + 1 } else { 1 };
            last = success;
            if run >= needed[usize::from(success)] && said != Some(success) {
                said = Some(success);
                changed(success);
                if until == (if success { Until::Success } else { Until::Failure }) {
                    return success;
                }
                if until == Until::Success {
                    return false;
                }
            }
            tokio::time::sleep(seconds(probe.period_seconds, 10) / self.divisor).await;
        }
    }

    async fn ask(&self, probe: &Probe, within: Duration) -> bool {
        if let Some(tcp) = &probe.tcp_socket {
            let Some(port) = self.port(&tcp.port) else { return false };
            return TcpStream::connect((self.address, port)).await.is_ok();
        }
        let Some(http) = &probe.http_get else { return false };
        let Some(port) = self.port(&http.port) else { return false };
        let scheme = http.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let path = http.path.as_deref().unwrap_or("/");
        let host = http.host.clone().unwrap_or_else(|| self.address.to_string());
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(within)
            .redirect(reqwest::redirect::Policy::none())
            .tls_danger_accept_invalid_certs(true)
            .build()
            .expect("an HTTP client");
        let mut request = client.get(format!("{scheme}://{host}:{port}{path}"));
        for header in http.http_headers.iter().flatten() {
            request = request.header(&header.name, &header.value);
        }
        request.send().await.is_ok_and(|answer| (200..400).contains(&answer.status().as_u16()))
    }

    fn port(&self, port: &IntOrString) -> Option<u16> {
        let named = |name: &str| -> Option<&ContainerPort> {
            self.container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name))
        };
        let number = match port {
            IntOrString::Int(number) => *number,
            IntOrString::String(name) => named(name)?.container_port,
        };
        u16::try_from(number).ok()
    }
}

/// What of a container's probes and hooks cannot be run here.
pub fn unknown(container: &Container) -> Option<&'static str> {
    let probes = [&container.startup_probe, &container.readiness_probe, &container.liveness_probe];
    if probes.iter().any(|probe| probe.as_ref().is_some_and(|p| p.exec.is_some() || p.grpc.is_some())) {
        return Some("probes other than httpGet and tcpSocket");
    }
    container.lifecycle.as_ref().map(|_| "lifecycle hooks")
}
