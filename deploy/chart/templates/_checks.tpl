{{- /* The values that cannot be served, refused before anything is installed. */ -}}
{{- define "penstock.check" -}}
{{- if not .Values.ticketKeys.secret }}{{ fail "ticketKeys.secret: name a secret with tickets.keys, which signs the tickets of all servers" }}{{ end -}}
{{- if and (not .Values.config) (not .Values.configSecret) }}{{ fail "config: write the config file, or name a secret with penstock.yaml in configSecret" }}{{ end -}}
{{- if and .Values.config .Values.configSecret }}{{ fail "config and configSecret are both set: choose one" }}{{ end -}}
{{- if and (not .Values.tls.secret) (not .Values.insecure) }}{{ fail "tls.secret: name a secret with the server's certificate; or set insecure, if every program that reaches the service may read what is sent" }}{{ end -}}
{{- if and (not .Values.tokens.secret) (not .Values.tls.clientCA) (not .Values.insecure) (not (get .Values.settings "jwt_issuer")) }}{{ fail "tokens.secret: name a secret with server.tokens; or set insecure, if every program that reaches the service may read all datasets" }}{{ end -}}
{{- if and .Values.tls.clientCA (not .Values.tls.secret) }}{{ fail "tls.clientCA needs tls.secret" }}{{ end -}}
{{- $instead := dict "listen" "" "insecure" "insecure" "tls_cert" "tls.secret" "tls_key" "tls.secret" "tls_client_ca" "tls.clientCA" "tokens" "tokens.secret" "ticket_keys" "ticketKeys.secret" "memory" "memoryMiB" "spool" "" "spool_limit" "spool.sizeGiB" "cache_dir" "cache.sizeGiB" "cache_disk" "cache.sizeGiB" "drain" "drainSeconds" "metrics" "metrics.enabled and metrics.port" "health" "" -}}
{{- range $name, $value := .Values.settings }}{{ if hasKey $instead $name -}}
{{ fail (printf "settings.%s: the chart sets it%s" $name (get $instead $name | empty | ternary "" (printf "; set %s instead" (get $instead $name)))) }}
{{- end }}{{ end -}}
{{- range $name, $value := .Values.podLabels }}{{ if hasKey (include "penstock.labels" $ | fromYaml) $name }}{{ fail (printf "podLabels: the chart sets the label %s" $name) }}{{ end }}{{ end -}}
{{- if hasKey .Values.podAnnotations "checksum/config" }}{{ fail "podAnnotations: the chart sets the annotation checksum/config" }}{{ end -}}
{{- include "penstock.checkMetrics" . -}}
{{- include "penstock.checkNetwork" . -}}
{{- end -}}

{{- define "penstock.checkMetrics" -}}
{{- with .Values.metrics }}{{ if .enabled -}}
{{- if or (eq (int .port) 8815) (eq (int .port) 8816) (eq (int .port) (int $.Values.service.port)) }}{{ fail "metrics.port: it is the port of the servers, of their probes or of the service; choose another one" }}{{ end -}}
{{- end }}{{ end -}}
{{- with .Values.metrics.serviceMonitor }}{{ if .enabled -}}
{{- if not $.Values.metrics.enabled }}{{ fail "metrics.serviceMonitor needs metrics.enabled" }}{{ end -}}
{{- if and $.Values.tls.secret (not .caSecret) }}{{ fail "metrics.serviceMonitor.caSecret: name a secret with ca.crt, with which Prometheus checks the server's certificate" }}{{ end -}}
{{- if and $.Values.tls.clientCA (not .clientSecret) }}{{ fail "metrics.serviceMonitor.clientSecret: name a secret with tls.crt and tls.key, since the server asks for certificates" }}{{ end -}}
{{- if and (or $.Values.tokens.secret (get $.Values.settings "jwt_issuer")) (not .tokenSecret) }}{{ fail "metrics.serviceMonitor.tokenSecret: name a secret with a token, since the server asks for one" }}{{ end -}}
{{- end }}{{ end -}}
{{- with .Values.autoscaling }}{{ if .enabled -}}
{{- if not $.Values.metrics.enabled }}{{ fail "autoscaling needs metrics.enabled: the servers are scaled by their metrics" }}{{ end -}}
{{- if not .prometheus }}{{ fail "autoscaling.prometheus: set the address of the Prometheus that scrapes the servers" }}{{ end -}}
{{- if lt (int .maxReplicas) (int .minReplicas) }}{{ fail "autoscaling.maxReplicas is less than autoscaling.minReplicas" }}{{ end -}}
{{- end }}{{ end -}}
{{- end -}}

{{- define "penstock.checkNetwork" -}}
{{- with .Values.networkPolicy }}{{ if .enabled -}}
{{- if not .storage.to }}{{ fail "networkPolicy.storage.to: list the addresses of storage, such as {ipBlock: {cidr: 10.1.0.0/16}}; servers that cannot reach it read nothing" }}{{ end -}}
{{- if and (get $.Values.settings "trace") (not .traces.to) }}{{ fail "networkPolicy.traces.to: list the address of the collector that settings.trace names" }}{{ end -}}
{{- if and (hasPrefix "https://" (get $.Values.settings "jwt_keys")) (not .others) }}{{ fail "networkPolicy.others: list the address of settings.jwt_keys; the server does not start without the keys" }}{{ end -}}
{{- end }}{{ end -}}
{{- end -}}
