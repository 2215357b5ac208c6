// A real identity provider on loopback: `node provider.js PORT [ALGORITHM] [opaque]`, port 0 for any.
// The first line on stdout is the issuer. Keys are new at each start; anybody may log in under any name.

import { createPublicKey, generateKeyPairSync, randomUUID, verify } from 'node:crypto';
import { createServer } from 'node:http';
import { parse } from 'node:querystring';

import Provider from 'oidc-provider';

const [port = '0', algorithm = 'RS256', accessTokenFormat = 'jwt'] = process.argv.slice(2);

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
  carol: { roles: ['admin'] },
  dave: { roles: ['reader'] },
};

const keys = [
  privateJwk('rsa', { modulusLength: 2048 }, 'RS256'),
  privateJwk('ec', { namedCurve: 'P-256' }, 'ES256'),
];

// The library keeps no JWT, so it can neither take one back nor tell of it. Here each has a record under its jti:
// an opaque token like any other to the library, which does the rest.
const keepRecord = async (ctx, token, { payload }) => {
  const { jti, iat, exp, aud, scope, sub } = payload;
  const { clientId, grantId, gty, extra, kind } = token;
  const record = { jti, iat, exp, aud, scope, accountId: sub, clientId, grantId, gty, extra, kind, format: 'opaque' };
  await token.adapter.upsert(jti, record, exp - iat);
};

const recordOf = (token) => {
  const [header, payload, signature] = token.split('.');
  if (signature === undefined) return token;
  const read = (part) => JSON.parse(Buffer.from(part, 'base64url'));
  const jwk = keys.find((key) => key.kid === read(header).kid);
  const key = jwk && { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' };
  const isOurs = key && verify('sha256', `${header}.${payload}`, key, Buffer.from(signature, 'base64url'));
  return isOurs ? read(payload).jti : token;
};

const configuration = {
  // For this server itself, to ask as. Its secret has in it what must be encoded on the way.
  clients: [{
    client_id: 'memory-server',
    client_secret: 'a:secret/+% of its own',
    grant_types: [],
    response_types: [],
    redirect_uris: [],
  }],
  jwks: { keys },
  formats: { customizers: { jwt: keepRecord } },
  scopes: ['openid', 'offline_access', 'memory', 'other'],
  clientDefaults: { id_token_signed_response_alg: 'RS256' },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  extraTokenClaims: (ctx, token) => accounts[token.accountId],
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        audience: resource,
        scope: 'memory other',
        accessTokenFormat,
        accessTokenTTL: 300,
        jwt: { sign: { alg: algorithm } },
      }),
    },
  },
};

const server = createServer();
server.listen(Number(port), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, configuration);
  provider.use(async (ctx, next) => {
    if (ctx.method === 'POST' && ['/token/introspection', '/token/revocation'].includes(ctx.path)) {
      const form = parse(Buffer.concat(await ctx.req.toArray()).toString());
      ctx.req.body = { ...form, token: recordOf(form.token) };
    }
    await next();
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
