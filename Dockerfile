FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json ./
RUN npm ci --ignore-scripts
COPY src src
RUN node_modules/.bin/tsc
# what runs needs neither tools nor tests, nor the embedded database and the Node that come with a checkout
RUN npm ci --ignore-scripts --omit=dev --omit=optional

FROM node:26-slim
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY src/admin/assets src/admin/assets
COPY sql sql
COPY package.json LICENSE ./
# the one folder that is written to; the root file system may be read-only
RUN mkdir /spool && chown node:node /spool
VOLUME /spool
ENV NODE_ENV=production HOST=0.0.0.0 ADMIN_HOST=0.0.0.0 SPOOL_DIR=/spool
USER 1000:1000
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=4s CMD ["node", "/app/dist/cli/health.js"]
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["serve"]
