# .nvmrc and .platform/package.json name the same version. A release adds the digest: node:…-slim@sha256:…
ARG NODE_IMAGE=node:26.10.0-slim

FROM ${NODE_IMAGE} AS build
# npm names the bill of materials after the folder
WORKDIR /tollgate
# without .platform npm installs neither the Node nor the Postgres of a checkout
COPY package.json package-lock.json .npmrc tsconfig.json ./
RUN npm ci --ignore-scripts
COPY src src
RUN node_modules/.bin/tsc && chmod +x dist/main.js
RUN npm ci --ignore-scripts --omit=dev
# what is in the image, for those who look for known vulnerabilities
RUN npm pkg delete workspaces devDependencies && npm sbom --omit=dev --sbom-format=cyclonedx > sbom.cdx.json
# a program reads none of these: 7 of 26 MB
RUN find node_modules dist -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \
  -o -iname '*.md' -o -iname '*.markdown' \) -delete

FROM ${NODE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=
ARG SOURCE=
ARG NODE_IMAGE
LABEL org.opencontainers.image.title="Tollgate" \
  org.opencontainers.image.description="A metered, governed gateway to language models" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.source="${SOURCE}" \
  org.opencontainers.image.base.name="${NODE_IMAGE}"
WORKDIR /app
COPY --from=build /tollgate/node_modules node_modules
COPY --from=build /tollgate/dist dist
COPY --from=build /tollgate/sbom.cdx.json ./
COPY src/admin/assets src/admin/assets
COPY sql sql
COPY package.json LICENSE ./
# the only folder that serving writes to; the root file system may be read-only. `tollgate try` has its Postgres in /data
RUN mkdir /spool /data && chown 1000:1000 /spool /data
# docker exec CONTAINER tollgate status
RUN ln -s /app/dist/main.js /usr/local/bin/tollgate
VOLUME /spool
ENV NODE_ENV=production HOST=:: ADMIN_HOST=:: SPOOL_DIR=/spool DATA_DIR=/data
USER 1000:1000
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# a start may migrate, or wait for a gateway that does: it ends by itself after twelve hours, and fails no check before
HEALTHCHECK --start-period=12h --interval=10s --timeout=4s CMD ["node", "/app/dist/cli/health.js"]
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["serve"]
