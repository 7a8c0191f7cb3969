{{- /* The pods of a StatefulSet have a label of its name and a hash, with at most 63 characters. */ -}}
{{- define "penstock.name" -}}
{{- if and (contains "penstock" .Release.Name) (le (len .Release.Name) 52) }}{{ .Release.Name }}{{ else }}{{ printf "%s-penstock" (.Release.Name | trunc 43 | trimSuffix "-") }}{{ end -}}
{{- end -}}

{{- /* The headless service, whose name resolves to the addresses of all servers. */ -}}
{{- define "penstock.headless" -}}
{{ include "penstock.name" . }}-headless
{{- end -}}

{{- /* The kind of the object whose pods are the servers. */ -}}
{{- define "penstock.kind" -}}
{{ if .Values.cache.sizeGiB }}StatefulSet{{ else }}Deployment{{ end }}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* How the kubelet checks whether a server takes calls: at an address without TLS, since it has no certificate and no token. */ -}}
{{- define "penstock.probe" -}}
httpGet: {path: /healthz, port: health}
periodSeconds: 10
timeoutSeconds: 5
{{- end -}}

{{- /* What the container may have: the budget, a quarter of it, and 256 MiB. */ -}}
{{- define "penstock.memory" -}}
{{ add .Values.memoryMiB (div (add .Values.memoryMiB 3) 4) 256 }}Mi
{{- end -}}

{{- /* What the container may have of the node's disk: its log, and the spool with what a file system needs, unless that is a volume of its own. Nodes
evict pods that use more than they request when the disk runs full. */ -}}
{{- define "penstock.disk" -}}
{{ if .Values.spool.storageClass }}1{{ else }}{{ add .Values.spool.sizeGiB 2 }}{{ end }}Gi
{{- end -}}

{{- /* A setting as the value of a flag. Numbers of files of values are floats, and would be printed as 1e+06. */ -}}
{{- define "penstock.setting" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}
