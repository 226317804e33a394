{{- define "unweaver.name" -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) }}
{{- $name | replace "." "-" | trunc 45 | trimSuffix "-" }}
{{- end }}

{{- define "unweaver.selector" -}}
app.kubernetes.io/name: unweaver
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "unweaver.cliLabels" -}}
app.kubernetes.io/name: unweaver-cli
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "unweaver.labels" -}}
{{ include "unweaver.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* unweaver.check refuses values that would put a password into an object that everybody reads. */}}
{{- define "unweaver.check" -}}
{{- $env := concat .Values.env .Values.worker.env .Values.queryApi.env .Values.doctor.env }}
{{- $url := "[a-z0-9+]+://[^/\\s\"'@]*:[^/\\s\"'@]+@" }}
{{- $key := "\\b(uwk_[0-9A-Za-z]{8}_|sk-[0-9A-Za-z_-]{20,}|AKIA[0-9A-Z]{16})" }}
{{- with regexFind (printf "%s|%s" $url $key) (printf "%s\n%s" .Values.config (toYaml $env)) }}
{{- fail (printf "config or env holds a secret (%s…): put it into a Secret, and name that one" (trunc 8 .)) }}
{{- end }}
{{- with (fromYaml .Values.config).Error }}
{{- fail (printf "config is no YAML: %s" .) }}
{{- end }}
{{- end }}

{{- define "unweaver.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* unweaver.container writes a container: root, program, engine, own, env, secret, resources. */}}
{{- define "unweaver.container" -}}
{{- $v := .root.Values }}
{{- $image := printf "unweaver-%s:%s" .program ($v.image.tag | default .root.Chart.AppVersion) }}
image: {{ compact (list $v.image.registry $image) | join "/" }}
imagePullPolicy: {{ $v.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- $set := dict "UNWEAVER_CONFIG" "/etc/unweaver/unweaver.yaml" "UNWEAVER_CACHE_DIR" "/cache/unweaver"
      "TMPDIR" "/cache" }}
{{- if and $v.engineTLS.existingSecret .engine }}
{{- $_ := set $set "UNWEAVER_ENGINE_TLS_CA" "/etc/unweaver-engine/ca.crt" }}
{{- $_ := set $set "UNWEAVER_ENGINE_TLS_CERT" "/etc/unweaver-engine/tls.crt" }}
{{- $_ := set $set "UNWEAVER_ENGINE_TLS_KEY" "/etc/unweaver-engine/tls.key" }}
{{- end }}
{{- if and $v.codecKey.existingSecret .engine }}
{{- $_ := set $set "UNWEAVER_ENGINE_CODEC_KEY_FILE" "/etc/unweaver-codec/codec.key" }}
{{- end }}
{{- if ne .program "worker" }}
{{- $_ := set $set "UNWEAVER_STORES_MILVUS_LOAD" "insert" }} {{- /* it loads nothing: no right to Milvus's bucket */}}
{{- end }}
{{- $set = merge $set .own }}
env:
  {{- range $name, $value := $set }}
  - { name: {{ $name }}, value: {{ $value | quote }} }
  {{- end }}
  {{- with concat $v.env .env }}
  {{- range . }}
  {{- if hasKey $set .name }}
  {{- fail (printf "env: %s of %s is set twice: by env, and by the chart or another env" .name $.program) }}
  {{- end }}
  {{- $_ := set $set .name "" }}
  {{- end }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with compact (list $v.existingSecret .secret) }}
envFrom:
  {{- range . }}
  - secretRef: { name: {{ . }} }
  {{- end }}
{{- end }}
{{- with .resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - { name: config, mountPath: /etc/unweaver, readOnly: true }
  - { name: cache, mountPath: /cache }
  {{- if and $v.engineTLS.existingSecret .engine }}
  - { name: engine-tls, mountPath: /etc/unweaver-engine, readOnly: true }
  {{- end }}
  {{- if and $v.codecKey.existingSecret .engine }}
  - { name: codec, mountPath: /etc/unweaver-codec, readOnly: true }
  {{- end }}
  {{- if and $v.queryApi.tls.existingSecret (eq .program "query-api") }}
  - { name: tls, mountPath: /etc/unweaver-tls, readOnly: true }
  {{- end }}
  {{- with $v.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* unweaver.pod writes what pods have in common: root, program, engine (it speaks to Temporal), cache, config. */}}
{{- define "unweaver.pod" -}}
{{- $v := .root.Values }}
serviceAccountName: {{ $v.serviceAccountName }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- include "unweaver.podSecurity" . | nindent 2 }}
{{- with $v.pod }}
{{ toYaml . }}
{{- end }}
volumes:
  - name: config
    configMap: { name: {{ .config }} }
  - name: cache
    {{- toYaml (.cache | default (dict "emptyDir" dict)) | nindent 4 }}
  {{- if and $v.engineTLS.existingSecret .engine }}
  - name: engine-tls
    secret: { secretName: {{ $v.engineTLS.existingSecret }}, defaultMode: 0440 }
  {{- end }}
  {{- if and $v.codecKey.existingSecret .engine }}
  - name: codec
    secret:
      secretName: {{ $v.codecKey.existingSecret }}
      defaultMode: 0440
      items: [{ key: {{ $v.codecKey.key }}, path: codec.key }]
  {{- end }}
  {{- if and $v.queryApi.tls.existingSecret (eq .program "query-api") }}
  - name: tls
    secret: { secretName: {{ $v.queryApi.tls.existingSecret }}, defaultMode: 0440 }
  {{- end }}
  {{- with $v.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* unweaver.url is where the command line finds query-api. */}}
{{- define "unweaver.url" -}}
{{- $scheme := .Values.queryApi.tls.existingSecret | empty | ternary "http" "https" }}
{{- printf "%s://%s:%v" $scheme (include "unweaver.name" .) .Values.queryApi.service.port }}
{{- end }}

{{- define "unweaver.index" -}}
{{ with .Values.doctor.index }}{{ list "--index" . | toJson }}{{ else }}[]{{ end }}
{{- end }}

{{/* unweaver.cli writes the pod of the command line: root, config, args. */}}
{{- define "unweaver.cli" -}}
{{- $d := .root.Values.doctor }}
{{- $own := dict "UNWEAVER_QUERY_API_ADDRESS" (include "unweaver.url" .root) }}
{{- $secret := $d.existingSecret | default .root.Values.worker.existingSecret }}
{{- $c := dict "root" .root "config" .config "program" "cli" "engine" true "own" $own "env" $d.env "secret" $secret
      "resources" $d.resources }}
restartPolicy: Never
{{ include "unweaver.pod" $c }}
containers:
  - name: cli
    args: {{ toJson .args }}
    {{- include "unweaver.container" $c | nindent 4 }}
{{- end }}
