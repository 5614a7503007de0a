//! A strategy's templates, from S3 coordinates with templates in them to the final ones.

use k8s_openapi::api::core::v1::LocalObjectReference;
use thiserror::Error;

use super::{Data, Template, TemplateError};
use crate::api::common::{CaSecretRef, S3Location};
use crate::api::strategy::StrategyS3;

/// Which text of a strategy, and what is wrong with it. Terminal until the strategy, the class or the application
/// changes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderError {
    /// The template does not parse or render.
    #[error("spec.template.destination.s3.{field}: {fault}")]
    Template {
        /// Field below `spec.template.destination.s3`.
        field: &'static str,
        /// What is wrong.
        fault: TemplateError,
    },
    /// A field that must have a value rendered to nothing.
    #[error("spec.template.destination.s3.{field} renders to an empty text")]
    Empty {
        /// Field below `spec.template.destination.s3`.
        field: &'static str,
    },
}

impl RenderError {
    /// The field's path in the strategy.
    #[must_use]
    pub fn field(&self) -> String {
        let (Self::Template { field, .. } | Self::Empty { field }) = self;
        format!("spec.template.destination.s3.{field}")
    }
}

/// The texts of a strategy's S3 destination that are templates, with their fields, in the order of the schema.
fn texts(s3: &StrategyS3) -> Vec<(&'static str, &str)> {
    let mut texts = vec![("endpoint", s3.endpoint.as_str()), ("bucket", s3.bucket.as_str())];
    texts.extend(s3.key.as_deref().map(|key| ("key", key)));
    texts.extend(s3.region.as_deref().map(|region| ("region", region)));
    texts.push(("credentialsSecretRef.name", s3.credentials_secret_ref.name.as_str()));
    if let Some(ca) = &s3.ca_secret_ref {
        texts.push(("caSecretRef.name", ca.name.as_str()));
        texts.extend(ca.key.as_deref().map(|key| ("caSecretRef.key", key)));
    }
    texts
}

/// Parses every template of a strategy and returns every fault, so that one look finds them all.
#[must_use]
pub fn parse_strategy(s3: &StrategyS3) -> Vec<RenderError> {
    texts(s3)
        .into_iter()
        .filter_map(|(field, text)| Template::parse(text).err().map(|fault| RenderError::Template { field, fault }))
        .collect()
}

/// Renders every text of a strategy's S3 destination. The key that results is a prefix.
pub fn render_strategy(s3: &StrategyS3, data: &Data) -> Result<S3Location, RenderError> {
    let render = |field: &'static str, text: &str| {
        Template::parse(text)
            .and_then(|template| template.render(data))
            .map_err(|fault| RenderError::Template { field, fault })
    };
    let needed = |field: &'static str, text: &str| match render(field, text)? {
        empty if empty.trim().is_empty() => Err(RenderError::Empty { field }),
        rendered => Ok(rendered),
    };
    let optional = |field: &'static str, text: Option<&String>| {
        text.map(|text| render(field, text)).transpose().map(|text| text.filter(|text| !text.is_empty()))
    };
    let ca_secret_ref = s3
        .ca_secret_ref
        .as_ref()
        .map(|ca| {
            Ok::<_, RenderError>(CaSecretRef {
                name: needed("caSecretRef.name", &ca.name)?,
                key: optional("caSecretRef.key", ca.key.as_ref())?,
            })
        })
        .transpose()?;
    Ok(S3Location {
        endpoint: needed("endpoint", &s3.endpoint)?,
        bucket: needed("bucket", &s3.bucket)?,
        key: optional("key", s3.key.as_ref())?,
        region: optional("region", s3.region.as_ref())?,
        force_path_style: s3.force_path_style,
        credentials_secret_ref: LocalObjectReference {
            name: needed("credentialsSecretRef.name", &s3.credentials_secret_ref.name)?,
        },
        ca_secret_ref,
    })
}
