{{- define "dranet.name" -}}
{{- default "dranet" .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "dranet.fullname" -}}
{{- $name := include "dranet.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dranet.labels" -}}
app: {{ include "dranet.name" . | quote }}
k8s-app: dranet
{{- end -}}

{{- /* Those of monitoring.labels have precedence: a Prometheus may select by `app`. */ -}}
{{- define "dranet.monitoringLabels" -}}
{{- merge (dict) (.Values.monitoring.labels | default dict) (include "dranet.labels" . | fromYaml) | toYaml }}
{{- end -}}

{{- define "dranet.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end -}}

{{- /* What has a value is a flag, false and "" included. */ -}}
{{- define "dranet.flag" -}}
{{- if not (kindIs "invalid" .value) }}
- {{ printf "--%s=%v" .name .value | quote }}
{{- end }}
{{- end -}}

{{- /* By the version: `helm template` knows no server's groups. Before 1.34 the API is in beta. */ -}}
{{- define "dranet.resourceVersion" -}}
resource.k8s.io/{{ ternary "v1" "v1beta1" (semverCompare ">=1.34.0-0" .Capabilities.KubeVersion.Version) }}
{{- end -}}
