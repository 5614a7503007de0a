//! What every kind of ours has in common: type, metadata, a spec that may be missing on the wire, and a status.

/// Declares the root type of a kind.
///
/// A hand-made root instead of `#[derive(CustomResource)]`, because the wire API admits objects without `spec`: they
/// must decode (to the default spec) so that a controller can say what is wrong with them.
macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $spec:ty, $status:ty, $group:expr, $version:literal, $plural:literal, $scope:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// Standard object metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is wanted.
            #[serde(deserialize_with = "crate::api::common::or_default")]
            pub spec: $spec,
            /// What was observed.
            pub status: Option<$status>,
        }

        impl $name {
            /// An object with this name and spec.
            #[must_use]
            pub fn new(name: &str, spec: $spec) -> Self {
                Self {
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: Some(name.to_owned()),
                        ..Default::default()
                    },
                    spec,
                    status: None,
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let mut object = serializer.serialize_struct(stringify!($name), 5)?;
                object.serialize_field("apiVersion", &<Self as kube::Resource>::api_version(&()))?;
                object.serialize_field("kind", stringify!($name))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = k8s_openapi::$scope;

            fn kind(&(): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }
            fn group(&(): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version(&(): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural(&(): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use kind;
