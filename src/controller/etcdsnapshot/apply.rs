//! Carries a snapshot's plan out. No decisions, and doing a step twice does no harm.

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use serde_json::json;

use super::decide::Step;
use super::observe::{Observed, Source};
use super::{Error, Reader, build};
use crate::k8s::apply::{create, merge};
use crate::k8s::error::{Class, class};

pub(super) async fn apply(reader: &Reader, seen: &Observed, step: Option<&Step>) -> Result<(), Error> {
    match step {
        None => Ok(()),
        Some(Step::CreateJob) => create_job(reader, seen).await,
        Some(Step::ExpireJob) => expire_job(reader, seen).await,
    }
}

/// A taken name is no failure: the next look tells whose Job it is.
async fn create_job(reader: &Reader, seen: &Observed) -> Result<(), Error> {
    let (Source::Found(cluster), Some(image)) = (&seen.source, reader.context.settings.agent_image.as_deref()) else {
        return Ok(());
    };
    let inputs = build::Inputs { snapshot: &seen.snapshot, cluster, members: &seen.members, image };
    let api: Api<Job> = reader.api(&seen.snapshot);
    match create(&api, &build::job(inputs)).await {
        Ok(_) => Ok(()),
        Err(error) if class(&error) == Class::AlreadyExists => Ok(()),
        Err(source) => Err(Error::Api { doing: "make the Job", source }),
    }
}

async fn expire_job(reader: &Reader, seen: &Observed) -> Result<(), Error> {
    let Ok(Some(job)) = seen.job.as_ref().map(|job| job.ours()) else { return Ok(()) };
    let api: Api<Job> = reader.api(&seen.snapshot);
    match merge(&api, job, json!({"spec": {"ttlSecondsAfterFinished": build::KEPT_SECONDS}})).await {
        Ok(_) => Ok(()),
        Err(error) if class(&error) == Class::NotFound => Ok(()),
        Err(source) => Err(Error::Api { doing: "let the ended Job go", source }),
    }
}
