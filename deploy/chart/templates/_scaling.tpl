{{- /* The series of this release's servers. */ -}}
{{- define "penstock.series" -}}
{{ default (printf `job="%s",namespace="%s"` (include "penstock.name" .) .Release.Namespace) .Values.autoscaling.selector }}
{{- end -}}

{{- /* The share of their time that trainers of a dataset waited for batches: of the dataset that waited most. */ -}}
{{- define "penstock.stall" -}}
max(sum by (dataset) (rate(penstock_trainer_waited_seconds_total{ {{- include "penstock.series" . -}} }[5m])) / sum by (dataset) (rate(penstock_trainer_seconds_total{ {{- include "penstock.series" . -}} }[5m])))
{{- end -}}

{{- /* 1.5 times the servers that are ready while trainers wait too long, as many as there are for an hour after they waited a fifth of that,
then 0. Without trainers it is 0. */ -}}
{{- define "penstock.wantedByStall" -}}
count(penstock_serving{ {{- include "penstock.series" . -}} } == 1) * (0.5 * ({{ include "penstock.stall" . }} > bool {{ .Values.autoscaling.maxStall }}) + (max_over_time({{ include "penstock.stall" . }}[1h:1m]) > bool {{ .Values.autoscaling.maxStall }} / 5) or vector(0))
{{- end -}}

{{- /* How many memory budgets the streams use, without the caches that are released when streams need memory. */ -}}
{{- define "penstock.usedBudgets" -}}
sum(penstock_memory_reserved_bytes{ {{- include "penstock.series" . -}} } - penstock_memory_idle_bytes{ {{- include "penstock.series" . -}} }) / max(penstock_memory_budget_bytes{ {{- include "penstock.series" . -}} })
{{- end -}}

{{- /* A trigger of KEDA. An empty answer is an error, which leaves the number of servers as it is. */ -}}
{{- define "penstock.trigger" -}}
type: prometheus
name: {{ .name }}
metricType: AverageValue
metadata:
  serverAddress: {{ .scaling.prometheus | quote }}
  query: {{ .query | squote }}
  threshold: {{ .threshold | quote }}
  ignoreNullValues: "false"
{{- with .scaling.authenticationRef }}
authenticationRef: {name: {{ . | quote }}}
{{- end }}
{{- end -}}

{{- /* How many servers there are: those that run if KEDA sets the number, since Kubernetes sets one server when the number is left out for the
first time. Helm finds none that run at an installation, and tools that render the chart without the cluster never do: the number is then left
out. */ -}}
{{- define "penstock.replicas" -}}
{{- if .Values.autoscaling.enabled -}}
{{- dig "spec" "replicas" "" (lookup "apps/v1" (include "penstock.kind" .) .Release.Namespace (include "penstock.name" .)) -}}
{{- else -}}
{{- .Values.replicas -}}
{{- end -}}
{{- end -}}
