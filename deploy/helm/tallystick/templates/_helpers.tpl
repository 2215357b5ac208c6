{{- define "tallystick.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tallystick.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tallystick.labels" -}}
{{ include "tallystick.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What would lose or split a memory is refused here, not found out later. */}}
{{- define "tallystick.check" -}}
{{- if and (not .Values.settings.log_url) (or (eq .Values.workload "Deployment") (gt (int .Values.replicas) 1)) }}
{{- fail "several pods, or pods without a volume, need settings.log_url: a log that lies elsewhere. With one pod on a volume use workload: StatefulSet, replicas: 1" }}
{{- end }}
{{- if not .Values.settings.issuers }}
{{- fail "settings.issuers is empty: in a cluster others can reach the server, so it asks for tokens; name the issuer whose tokens are to be trusted" }}
{{- end }}
{{- if not .Values.settings.public_url }}
{{- fail "settings.public_url is empty: tokens are issued for that address" }}
{{- end }}
{{- range $name, $_ := .Values.settings }}
{{- if has $name (list "base" "http" "http_hosts") }}
{{- fail (printf "settings.%s is set by the chart" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tallystick.environment" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: BASE_PATH
  value: /var/lib/tallystick
- name: TALLYSTICK_HTTP
  value: 0.0.0.0:8765
# Prometheus calls a pod by its address.
- name: TALLYSTICK_HTTP_HOSTS
  value: {{ printf "$(POD_IP),%s,%s.%s.svc" (include "tallystick.name" .) (include "tallystick.name" .) .Release.Namespace | quote }}
- name: TALLYSTICK_REFUSE_ROOT
  value: "true"
{{- range $name, $value := .Values.settings }}
- name: {{ printf "TALLYSTICK_%s" (upper (ternary "agent" $name (eq $name "agent_identity"))) }}
  value: {{ if kindIs "slice" $value }}{{ join "," $value | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A probe calls a pod by its address as well, and needs no name for it. */}}
{{- define "tallystick.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ if .root.Values.settings.tls_cert }}HTTPS{{ else }}HTTP{{ end }}
  httpHeaders: [{name: Host, value: localhost}]
{{- end }}

{{- define "tallystick.pod" -}}
metadata:
  labels:
    {{- include "tallystick.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "tallystick.name" . }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: tallystick
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      env:
        {{- include "tallystick.environment" . | nindent 8 }}
      ports:
        - {name: http, containerPort: 8765, protocol: TCP}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      # Not /health/ready: a restart does not help against a full disk or a damaged log.
      startupProbe:
        {{- include "tallystick.probe" (dict "root" . "path" "/health/live") | nindent 8 }}
        periodSeconds: 2
        failureThreshold: 450   # a log without a snapshot is replayed: 15 minutes of it
      readinessProbe:
        {{- include "tallystick.probe" (dict "root" . "path" "/health/ready") | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
      livenessProbe:
        {{- include "tallystick.probe" (dict "root" . "path" "/health/live") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 6
      lifecycle:
        # Until everybody who balances calls has heard that this pod ends; then SIGTERM, and the server drains.
        preStop: {exec: {command: [sleep, "5"]}}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: memory, mountPath: /var/lib/tallystick}
        - {name: scratch, mountPath: /tmp}
        {{- range .Values.secrets }}
        - {name: {{ printf "secret-%s" . | quote }}, mountPath: {{ printf "/etc/tallystick/secrets/%s" . | quote }}, readOnly: true}
        {{- end }}
  volumes:
    - {name: scratch, emptyDir: {}}
    {{- if eq .Values.workload "Deployment" }}
    - {name: memory, emptyDir: {}}
    {{- end }}
    {{- range .Values.secrets }}
    - name: {{ printf "secret-%s" . }}
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
  {{- range $name := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
  {{- with index $.Values $name }}
  {{ $name }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end }}
