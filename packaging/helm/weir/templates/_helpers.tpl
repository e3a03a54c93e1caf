{{- define "weir.name" -}}
{{- ternary .Release.Name (printf "%s-weir" .Release.Name) (contains "weir" .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "weir.metadata" -}}
name: {{ include "weir.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "weir.labels" . | nindent 2 }}
{{- end }}

{{- /* Fails for values that contradict each other. */}}
{{- define "weir.check" -}}
{{- $v := .Values }}
{{- $sidecar := eq $v.mode "sidecar" }}
{{- if and (not $sidecar) (not $v.password.secret) (not $v.insecure) }}
{{- fail "password.secret: expected the name of a Secret, or insecure: true, because other pods can connect" }}
{{- end }}
{{- if and $v.password.secret $v.insecure }}
{{- fail "insecure: true: expected no password.secret" }}
{{- end }}
{{- if and $sidecar $v.insecure }}
{{- fail "insecure: true: expected false in the mode sidecar, which only its own pod can reach" }}
{{- end }}
{{- if and (eq $v.mode "deployment") (gt (int $v.replicas) 1) (not (has $v.config.engine (list "redis" "hybrid"))) }}
{{- fail (printf "replicas: expected 1, found %d: each replica would count alone; set config.engine: redis or hybrid, or mode: statefulset" (int $v.replicas)) }}
{{- end }}
{{- range $key := list "grace" "drain" }}
{{- if hasKey ($v.config.limits | default dict) $key }}
{{- fail (printf "config.limits.%s: expected stop.%s instead, which terminationGracePeriodSeconds follows" $key $key) }}
{{- end }}
{{- end }}
{{- range $key := list "password" "password_file" "insecure" }}
{{- if hasKey $v.config $key }}
{{- fail (printf "config.%s: expected the value password.secret or insecure of the chart" $key) }}
{{- end }}
{{- end }}
{{- if and $v.envoyLimits (not $v.ports.grpc) }}
{{- fail "ports.grpc: expected a port, such as 8081, because envoyLimits is set" }}
{{- end }}
{{- end }}

{{- /* weir.yaml: what the chart knows, and then config. */}}
{{- define "weir.config" -}}
{{- $v := .Values }}
{{- $host := ternary "127.0.0.1" "0.0.0.0" (eq $v.mode "sidecar") }}
{{- $listen := dict }}
{{- range $protocol, $port := $v.ports }}
{{- $_ := set $listen $protocol (ternary (printf "%s:%d" $host (int $port)) "off" (gt (int $port) 0)) }}
{{- end }}
{{- $limits := dict "grace" (printf "%ds" (int $v.stop.grace)) "drain" (printf "%ds" (int $v.stop.drain)) }}
{{- if eq $v.mode "sidecar" }}
{{- $_ := unset $limits "grace" }}
{{- end }}
{{- $own := dict "listen" $listen "limits" $limits }}
{{- if $v.password.secret }}
{{- $_ := set $own "password" "${WEIR_PASSWORD}" }}
{{- else if $v.insecure }}
{{- $name := include "weir.name" . }}
{{- $in := printf "%s.%s" $name .Release.Namespace }}
{{- $hosts := list $name $in (printf "%s.svc" $in) (printf "%s.svc.cluster.local" $in) }}
{{- $_ := set $own "insecure" true }}
{{- $_ := set $own "http" (dict "hosts" $hosts) }}
{{- end }}
{{- if eq $v.mode "statefulset" }}
{{- $_ := set $own "memory" (dict "file" "/var/lib/weir/state") }}
{{- end }}
{{- if $v.envoyLimits }}
{{- $_ := set $own "envoy" (dict "config" "/etc/weir/envoy") }}
{{- end }}
{{- mergeOverwrite $own (deepCopy $v.config) | toYaml }}
{{- end }}

{{- define "weir.container" -}}
{{- $v := .Values }}
{{- $sidecar := eq $v.mode "sidecar" }}
name: weir
image: "{{ $v.image.repository }}:{{ $v.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ $v.image.pullPolicy }}
args: [serve, /etc/weir/weir.yaml]
{{- if or $v.password.secret $v.env }}
env:
  {{- if $v.password.secret }}
  - name: WEIR_PASSWORD
    valueFrom: {secretKeyRef: {name: {{ $v.password.secret }}, key: {{ $v.password.key }}}}
  {{- end }}
  {{- with $v.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- if $sidecar }}
startupProbe:
  exec: {command: [/usr/bin/weir, ping, --server, "{{ $v.ports.resp }}"]}
  periodSeconds: 1
  failureThreshold: 30
livenessProbe:
  exec: {command: [/usr/bin/weir, ping, --server, "{{ $v.ports.resp }}"]}
{{- else }}
{{- $scheme := ternary "HTTPS" "HTTP" (hasKey $v.config "tls") }}
ports:
  {{- range $protocol, $port := $v.ports }}
  {{- if $port }}
  - {name: {{ $protocol }}, containerPort: {{ $port }}}
  {{- end }}
  {{- end }}
startupProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 1
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 5
{{- end }}
resources:
  {{- toYaml $v.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
  - {name: weir-config, mountPath: /etc/weir, readOnly: true}
  {{- if eq $v.mode "statefulset" }}
  - {name: state, mountPath: /var/lib/weir}
  {{- end }}
  {{- with $v.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* For your own chart: an entry of initContainers, which runs as long as the pod. */}}
{{- define "weir.sidecar" -}}
- restartPolicy: Always
  {{ include "weir.container" . | trim | indent 2 | trim }}
{{- end }}

{{- /* Entries of volumes. */}}
{{- define "weir.volumes" -}}
- name: weir-config
  configMap:
    name: {{ include "weir.name" . }}
    items:
      - {key: weir.yaml, path: weir.yaml}
      {{- range $file, $_ := .Values.envoyLimits }}
      - {key: {{ $file }}, path: envoy/{{ $file }}}
      {{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "weir.pod" -}}
metadata:
  labels:
    {{- include "weir.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .Values.restartOnChange .Values.podAnnotations }}
  annotations:
    {{- if .Values.restartOnChange }}
    checksum/config: {{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  terminationGracePeriodSeconds: {{ add .Values.stop.grace .Values.stop.drain 10 }}
  automountServiceAccountToken: false
  securityContext: {fsGroup: 65532, fsGroupChangePolicy: OnRootMismatch}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - {name: {{ . }}}
    {{- end }}
  {{- end }}
  containers:
    - {{ include "weir.container" . | trim | indent 6 | trim }}
  volumes:
    {{- include "weir.volumes" . | nindent 4 }}
  {{- with .Values.podSpec }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
