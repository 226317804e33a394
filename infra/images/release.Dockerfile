# Images of a release, by goreleaser: the programs of its archives, on the base and with the settings of Dockerfile.
FROM gcr.io/distroless/static-debian12:nonroot AS folder
WORKDIR /cache

FROM gcr.io/distroless/static-debian12:nonroot AS base
COPY LICENSE bin/THIRD-PARTY-LICENSES.txt /licenses/
COPY --from=folder --chown=65532:65532 /cache /cache
ENV UNWEAVER_CONFIG=/etc/unweaver/unweaver.yaml UNWEAVER_CACHE_DIR=/cache TMPDIR=/cache
USER 65532:65532

FROM base AS worker
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/unweaver-worker /unweaver-worker
ENTRYPOINT ["/unweaver-worker"]

FROM base AS query-api
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/unweaver-query-api /unweaver-query-api
EXPOSE 8080
ENTRYPOINT ["/unweaver-query-api"]

FROM base AS cli
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/unweaver /unweaver
ENTRYPOINT ["/unweaver"]
