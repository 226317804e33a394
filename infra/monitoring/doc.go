// Package monitoring holds a Grafana dashboard (dashboard.json) and alert rules of Prometheus (rules.yml), over the
// metrics of docs/reference/metrics.md. Its tests hold them to what the programs really serve.
package monitoring
