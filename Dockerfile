# .nvmrc and .platform/package.json name the same version
ARG NODE_IMAGE=node:26.10.0-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
# without .platform npm installs neither the Node nor the Postgres of a checkout
COPY package.json package-lock.json .npmrc tsconfig.json ./
RUN npm ci --ignore-scripts
COPY src src
RUN node_modules/.bin/tsc && chmod +x dist/main.js
RUN npm ci --ignore-scripts --omit=dev

FROM ${NODE_IMAGE}
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY src/admin/assets src/admin/assets
COPY sql sql
COPY package.json LICENSE ./
# the only folder that is written to; the root file system may be read-only
RUN mkdir /spool && chown node:node /spool
# docker exec CONTAINER tollgate status
RUN ln -s /app/dist/main.js /usr/local/bin/tollgate
VOLUME /spool
ENV NODE_ENV=production HOST=0.0.0.0 ADMIN_HOST=0.0.0.0 SPOOL_DIR=/spool
USER 1000:1000
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# a start may migrate, or wait for a gateway that does: it ends by itself after twelve hours, and fails no check before
HEALTHCHECK --start-period=12h --interval=10s --timeout=4s CMD ["node", "/app/dist/cli/health.js"]
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["serve"]
