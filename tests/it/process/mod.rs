//! Tests of our programs as processes, against real etcd and S3 servers.

mod admission;
mod agents;
mod bed_etcd;
mod bed_fault_proxy;
mod bed_s3;
mod command_line;
mod guides;

/// A policy of a user's own, with a parameter.
pub const HOUSE: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: house.example}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
      - {apiGroups: [etcd-operator.cozystack.io], apiVersions: ['*'], operations: [CREATE], resources: [etcdclusters]}
  validations:
    - {expression: object.spec.replicas <= int(params.data.members), message: 'spec.replicas: too many for this house'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: house.example}
spec: {policyName: house.example, validationActions: [Deny], paramRef: {name: house, namespace: a, parameterNotFoundAction: Deny}}
";
