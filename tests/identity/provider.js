// A real identity provider on loopback: `node provider.js PORT [ALGORITHM]`, port 0 for any.
// The first line on stdout is the issuer. Keys are new at each start; anybody may log in under any name.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import Provider from 'oidc-provider';

const [port = '0', algorithm = 'RS256'] = process.argv.slice(2);

const privateJwk = (kind, options, alg) => ({
  ...generateKeyPairSync(kind, options).privateKey.export({ format: 'jwk' }),
  kid: randomUUID(),
  use: 'sig',
  alg,
});

// What the tenants and roles of the accounts are, by name.
const accounts = {
  alice: { roles: ['writer', 'reader'] },
  bob: { roles: ['reader'], tenant_id: 'acme' },
};

const configuration = {
  clients: [],
  jwks: {
    keys: [
      privateJwk('rsa', { modulusLength: 2048 }, 'RS256'),
      privateJwk('ec', { namedCurve: 'P-256' }, 'ES256'),
    ],
  },
  scopes: ['openid', 'offline_access', 'memory', 'other'],
  clientDefaults: { id_token_signed_response_alg: 'RS256' },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  extraTokenClaims: (ctx, token) => accounts[token.accountId],
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        audience: resource,
        scope: 'memory other',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 300,
        jwt: { sign: { alg: algorithm } },
      }),
    },
  },
};

const server = createServer();
server.listen(Number(port), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  server.on('request', new Provider(issuer, configuration).callback());
  console.log(issuer);
});
