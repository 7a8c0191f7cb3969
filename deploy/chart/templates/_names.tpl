{{- define "penstock.name" -}}
{{- if contains "penstock" .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-penstock" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- /* The headless service, whose name resolves to the addresses of all servers. */ -}}
{{- define "penstock.headless" -}}
{{ printf "%s-headless" (include "penstock.name" . | trunc 54 | trimSuffix "-") }}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* The values that cannot be served, refused before anything is installed. */ -}}
{{- define "penstock.check" -}}
{{- if not .Values.ticketKeys.secret }}{{ fail "ticketKeys.secret: name a secret with tickets.keys, which signs the tickets of all servers" }}{{ end -}}
{{- if and (not .Values.config) (not .Values.configSecret) }}{{ fail "config: write the config file, or name a secret with penstock.yaml in configSecret" }}{{ end -}}
{{- if and .Values.config .Values.configSecret }}{{ fail "config and configSecret are both set: choose one" }}{{ end -}}
{{- if and (not .Values.tls.secret) (not .Values.insecure) }}{{ fail "tls.secret: name a secret with the server's certificate; or set insecure, if every program that reaches the service may read what is sent" }}{{ end -}}
{{- if and (not .Values.tokens.secret) (not .Values.tls.clientCA) (not .Values.insecure) (not (hasKey .Values.settings "jwt_issuer")) }}{{ fail "tokens.secret: name a secret with server.tokens; or set insecure, if every program that reaches the service may read all datasets" }}{{ end -}}
{{- with .Values.metrics.serviceMonitor }}{{ if .enabled -}}
{{- if not $.Values.metrics.enabled }}{{ fail "metrics.serviceMonitor needs metrics.enabled" }}{{ end -}}
{{- if and $.Values.tls.secret (not .caSecret) }}{{ fail "metrics.serviceMonitor.caSecret: name a secret with ca.crt, with which Prometheus checks the server's certificate" }}{{ end -}}
{{- if and $.Values.tls.clientCA (not .clientSecret) }}{{ fail "metrics.serviceMonitor.clientSecret: name a secret with tls.crt and tls.key, since the server asks for certificates" }}{{ end -}}
{{- if and $.Values.tokens.secret (not .tokenSecret) }}{{ fail "metrics.serviceMonitor.tokenSecret: name a secret with a token, since the server asks for one" }}{{ end -}}
{{- end }}{{ end -}}
{{- if and .Values.tls.clientCA (not .Values.tls.secret) }}{{ fail "tls.clientCA needs tls.secret" }}{{ end -}}
{{- if or (hasKey .Values.settings "cache_dir") (hasKey .Values.settings "cache_disk") }}{{ fail "settings.cache_dir and settings.cache_disk: set cache.sizeGiB instead, which gives each server a volume" }}{{ end -}}
{{- with .Values.autoscaling }}{{ if .enabled -}}
{{- if not $.Values.metrics.enabled }}{{ fail "autoscaling needs metrics.enabled: the servers are scaled by their metrics" }}{{ end -}}
{{- if not .prometheus }}{{ fail "autoscaling.prometheus: set the address of the Prometheus that scrapes the servers" }}{{ end -}}
{{- if lt (int .maxReplicas) (int .minReplicas) }}{{ fail "autoscaling.maxReplicas is less than autoscaling.minReplicas" }}{{ end -}}
{{- end }}{{ end -}}
{{- end -}}

{{- /* How the kubelet checks whether a server takes calls: its own gRPC probe has no TLS. */ -}}
{{- define "penstock.probe" -}}
{{- if .Values.tls.clientCA -}}
tcpSocket: {port: grpc}
{{- else if .Values.tls.secret -}}
exec: {command: [/usr/local/bin/penstock, health, --uri, "grpc+tls://127.0.0.1:8815"]}
{{- else -}}
grpc: {port: 8815}
{{- end }}
periodSeconds: 10
timeoutSeconds: 5
{{- end -}}

{{- /* What the container may have: the budget, a quarter of it, and 256 MiB. */ -}}
{{- define "penstock.memory" -}}
{{ add .Values.memoryMiB (div (add .Values.memoryMiB 3) 4) 256 }}Mi
{{- end -}}
