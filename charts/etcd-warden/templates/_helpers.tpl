{{- define "etcd-warden.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 52 characters, so that names derived from it stay legal. */}}
{{- define "etcd-warden.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "etcd-warden.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "etcd-warden.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "etcd-warden.selectorLabels" -}}
app.kubernetes.io/name: {{ include "etcd-warden.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "etcd-warden.labels" -}}
{{ include "etcd-warden.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "etcd-warden.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "etcd-warden.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "etcd-warden.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}

{{- /* The user name of our own service account, as the API server sees it. */}}
{{- define "etcd-warden.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "etcd-warden.serviceAccountName" .) }}
{{- end }}

{{- /* The Secret with a certificate that somebody else renews. */}}
{{- define "etcd-warden.certificateSecret" -}}
{{- if eq .Values.webhook.certificate.source "secret" -}}
{{ .Values.webhook.certificate.secretName }}
{{- else -}}
{{ include "etcd-warden.fullname" . }}-tls
{{- end -}}
{{- end }}

{{- define "etcd-warden.policyVolume" -}}
policies-{{ . | sha256sum | trunc 12 }}
{{- end }}

{{- define "etcd-warden.mounts" -}}
{{- if ne .Values.webhook.certificate.source "self-managed" }}
- name: certificate
  mountPath: /etc/etcd-warden/certificate
  readOnly: true
{{- end }}
{{- if .Values.webhook.clientAuthorities.configMapName }}
- name: client-authorities
  mountPath: /etc/etcd-warden/client-authorities
  readOnly: true
{{- end }}
{{- range .Values.policies.configMaps }}
- name: {{ include "etcd-warden.policyVolume" . }}
  mountPath: /etc/etcd-warden/policies/{{ . }}
  readOnly: true
{{- end }}
{{- end }}
