{{- /* The pods of a Deployment or StatefulSet. */ -}}
{{- define "penstock.pod" -}}
metadata:
  labels:
    {{- include "penstock.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/config: {{ .Values.config | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ .Values.serviceAccount.name | quote }}
  automountServiceAccountToken: false
  # No variables of other services, some of which would begin with PENSTOCK_, as those of settings do.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add .Values.drainSeconds 15 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    # Without it, the kubelet opens the folder of the cache to the group at each start, and the server refuses such a folder.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: penstock
      image: {{ if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}{{ else }}{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}{{ end }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --config=/etc/penstock/config/penstock.yaml
        # On every address of the pod, IPv4 and IPv6.
        - --listen=:8815
        - --memory={{ int64 .Values.memoryMiB }}MiB
        - --spool=/var/lib/penstock/spool
        - --spool-limit={{ int64 .Values.spool.sizeGiB }}GiB
        {{- if .Values.cache.sizeGiB }}
        - --cache-dir=/var/cache/penstock/columns
        - --cache-disk={{ div (mul .Values.cache.sizeGiB 1024 9) 10 }}MiB
        {{- end }}
        - --health=:8816
        - --drain={{ int64 .Values.drainSeconds }}s
        - --log-format=json
        - --ticket-keys=/etc/penstock/tickets/tickets.keys
        {{- if .Values.tls.secret }}
        - --tls-cert=/etc/penstock/tls/tls.crt
        - --tls-key=/etc/penstock/tls/tls.key
        {{- end }}
        {{- if .Values.tls.clientCA }}
        - --tls-client-ca=/etc/penstock/tls/ca.crt
        {{- end }}
        {{- if .Values.tokens.secret }}
        - --tokens=/etc/penstock/tokens/server.tokens
        {{- end }}
        {{- if .Values.insecure }}
        - --insecure
        {{- end }}
        {{- if .Values.metrics.enabled }}
        - --metrics=:{{ int64 .Values.metrics.port }}
        {{- end }}
        {{- range $name, $value := .Values.settings }}
        - {{ printf "--%s=%s" (replace "_" "-" $name) (include "penstock.setting" $value) | quote }}
        {{- end }}
      {{- with .Values.env }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: grpc, containerPort: 8815}
        - {name: health, containerPort: 8816}
        {{- if .Values.metrics.enabled }}
        - {name: metrics, containerPort: {{ .Values.metrics.port }}}
        {{- end }}
      startupProbe:
        {{- include "penstock.probe" . | nindent 8 }}
        failureThreshold: 30
      readinessProbe:
        {{- include "penstock.probe" . | nindent 8 }}
      livenessProbe:
        {{- include "penstock.probe" . | nindent 8 }}
        failureThreshold: 6
      resources:
        requests: {cpu: {{ .Values.cpu | quote }}, memory: {{ include "penstock.memory" . }}, ephemeral-storage: {{ include "penstock.disk" . }}}
        limits: { {{- with .Values.cpuLimit }}cpu: {{ . | quote }}, {{ end }}memory: {{ include "penstock.memory" . }}, ephemeral-storage: {{ include "penstock.disk" . }}}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/penstock/config, readOnly: true}
        - {name: tickets, mountPath: /etc/penstock/tickets, readOnly: true}
        {{- if .Values.tls.secret }}
        - {name: tls, mountPath: /etc/penstock/tls, readOnly: true}
        {{- end }}
        {{- if .Values.tokens.secret }}
        - {name: tokens, mountPath: /etc/penstock/tokens, readOnly: true}
        {{- end }}
        {{- if .Values.files.secret }}
        - {name: files, mountPath: /etc/penstock/files, readOnly: true}
        {{- end }}
        - {name: spool, mountPath: /var/lib/penstock}
        {{- if .Values.cache.sizeGiB }}
        - {name: cache, mountPath: /var/cache/penstock}
        {{- end }}
  volumes:
    - name: config
      secret: {secretName: {{ default (printf "%s-config" (include "penstock.name" .)) .Values.configSecret | quote }}, defaultMode: 0440}
    - name: tickets
      secret: {secretName: {{ .Values.ticketKeys.secret | quote }}, defaultMode: 0440}
    {{- if .Values.tls.secret }}
    - name: tls
      secret: {secretName: {{ .Values.tls.secret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.tokens.secret }}
    - name: tokens
      secret: {secretName: {{ .Values.tokens.secret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.files.secret }}
    - name: files
      secret: {secretName: {{ .Values.files.secret | quote }}, defaultMode: 0440}
    {{- end }}
    - name: spool
      {{- if .Values.spool.storageClass }}
      ephemeral:
        volumeClaimTemplate:
          spec:
            accessModes: [ReadWriteOnce]
            storageClassName: {{ .Values.spool.storageClass | quote }}
            resources: {requests: {storage: {{ add .Values.spool.sizeGiB 1 }}Gi}}
      {{- else }}
      emptyDir: {sizeLimit: {{ add .Values.spool.sizeGiB 1 }}Gi}
      {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "penstock.selector" . | nindent 10 }}
      matchLabelKeys: [{{ if .Values.cache.sizeGiB }}controller-revision-hash{{ else }}pod-template-hash{{ end }}]
    {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
