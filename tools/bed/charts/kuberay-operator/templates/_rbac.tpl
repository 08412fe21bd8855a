{{- define "labels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "account" -}}
{{- .Values.serviceAccount.create | ternary (.Values.serviceAccount.name | default .Values.fullnameOverride) (.Values.serviceAccount.name | default "default") }}
{{- end }}

{{- /* A role of the given file's rules, bound to the operator's account: (dict "root" $ "kind" "Role" "name" ... "namespace" ... "file" ...) */}}
{{- define "bound-role" }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "labels" .root | nindent 4 }}
rules: {{ toJson (.root.Files.Get .file | fromYaml).rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .kind }}, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "account" .root }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}
