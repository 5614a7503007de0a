// Program webhook is what one would write in Go: a webhook on controller-runtime that evaluates the policy documents of a
// folder with the API server's own library. It is what our server is measured beside.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

// compiled is a policy that is ready to be evaluated, with what becomes of its findings.
type compiled struct {
	name      string
	rules     []registration.NamedRuleWithOperations
	validator validating.Validator
	warn      bool
}

func main() {
	certs := flag.String("certs", "", "folder with tls.crt and tls.key")
	policies := flag.String("policies", "", "folder with policy documents")
	port := flag.Int("port", 9443, "port on 127.0.0.1")
	flag.Parse()
	loaded, err := load(*policies)
	if err != nil {
		log.Fatal(err)
	}
	server := webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: *port, CertDir: *certs,
		TLSOpts: []func(*tls.Config){func(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }},
	})
	server.Register("/validate", &webhookadmission.Webhook{Handler: webhookadmission.HandlerFunc(
		func(ctx context.Context, request webhookadmission.Request) webhookadmission.Response {
			return answer(ctx, loaded, request)
		})})
	log.Fatal(server.Start(context.Background()))
}

func load(folder string) ([]compiled, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	env, err := cel.NewCompositionEnv(cel.VariablesTypeName, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true))
	if err != nil {
		return nil, err
	}
	var found []compiled
	warns := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, document := range bytes.Split(text, []byte("\n---")) {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal(document, &kind); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			switch kind.Kind {
			case "ValidatingAdmissionPolicy":
				var policy registration.ValidatingAdmissionPolicy
				if err := yaml.Unmarshal(document, &policy); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				found = append(found, compile(env, &policy))
			case "ValidatingAdmissionPolicyBinding":
				var binding registration.ValidatingAdmissionPolicyBinding
				if err := yaml.Unmarshal(document, &binding); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				for _, action := range binding.Spec.ValidationActions {
					warns[binding.Spec.PolicyName] = warns[binding.Spec.PolicyName] || action == registration.Warn
				}
			}
		}
	}
	for i := range found {
		found[i].warn = warns[found[i].name]
	}
	return found, nil
}

func compile(env *cel.CompositionEnv, policy *registration.ValidatingAdmissionPolicy) compiled {
	options := cel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, StrictCost: true}
	compiler := cel.NewCompositedCompilerFromTemplate(env)
	var variables []cel.NamedExpressionAccessor
	for _, variable := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: variable.Name, Expression: variable.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var matcher matchconditions.Matcher
	if len(policy.Spec.MatchConditions) > 0 {
		var conditions []cel.ExpressionAccessor
		for i := range policy.Spec.MatchConditions {
			conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
		}
		program := compiler.CompileCondition(conditions, options, environment.StoredExpressions)
		matcher = matchconditions.NewMatcher(program, policy.Spec.FailurePolicy, "policy", "validate", policy.Name)
	}
	validations := make([]cel.ExpressionAccessor, len(policy.Spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(policy.Spec.Validations))
	for i, validation := range policy.Spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: validation.Expression, Message: validation.Message, Reason: validation.Reason}
		if validation.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: validation.MessageExpression}
		}
	}
	return compiled{
		name:  policy.Name,
		rules: policy.Spec.MatchConstraints.ResourceRules,
		validator: validating.NewValidator(
			compiler.CompileCondition(validations, options, environment.StoredExpressions), matcher,
			compiler.CompileCondition(nil, options, environment.StoredExpressions),
			compiler.CompileCondition(messages, options, environment.StoredExpressions), policy.Spec.FailurePolicy),
	}
}

func (c *compiled) matches(request *admissionv1.AdmissionRequest) bool {
	resource := request.Resource.Resource
	if request.SubResource != "" {
		resource += "/" + request.SubResource
	}
	has := func(list []string, value string) bool {
		for _, one := range list {
			if one == value || one == "*" {
				return true
			}
		}
		return false
	}
	for _, rule := range c.rules {
		operations := make([]string, len(rule.Operations))
		for i, operation := range rule.Operations {
			operations[i] = string(operation)
		}
		if has(rule.APIGroups, request.Resource.Group) && has(rule.APIVersions, request.Resource.Version) &&
			has(rule.Resources, resource) && has(operations, string(request.Operation)) {
			return true
		}
	}
	return false
}

func answer(ctx context.Context, policies []compiled, request webhookadmission.Request) webhookadmission.Response {
	object, err := decode(request.Object)
	if err != nil {
		return webhookadmission.Errored(http.StatusBadRequest, err)
	}
	old, err := decode(request.OldObject)
	if err != nil {
		return webhookadmission.Errored(http.StatusBadRequest, err)
	}
	gvr := schema.GroupVersionResource(request.Resource)
	gvk := schema.GroupVersionKind(request.Kind)
	attributes := admission.NewAttributesRecord(object, old, gvk, request.Namespace, request.Name, gvr, request.SubResource,
		admission.Operation(request.Operation), nil, false, &user.DefaultInfo{Name: request.UserInfo.Username, Groups: request.UserInfo.Groups})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: object, VersionedOldObject: old}
	var denials, warnings []string
	for i := range policies {
		if !policies[i].matches(&request.AdmissionRequest) {
			continue
		}
		result := policies[i].validator.Validate(ctx, gvr, versioned, nil, nil, apiservercel.RuntimeCELCostBudget, nil)
		for _, decision := range result.Decisions {
			if decision.Action != validating.ActionDeny {
				continue
			}
			if policies[i].warn {
				warnings = append(warnings, decision.Message)
			} else {
				denials = append(denials, decision.Message)
			}
		}
	}
	if len(denials) > 0 {
		return webhookadmission.Denied(strings.Join(denials, "; ")).WithWarnings(warnings...)
	}
	return webhookadmission.Allowed("").WithWarnings(warnings...)
}

func decode(raw runtime.RawExtension) (runtime.Object, error) {
	if len(raw.Raw) == 0 {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(raw.Raw)
}
