-- 20_body_schema.sql: the subset of JSON Schema draft 2020-12 that a
-- contract may ask of its bodies.
--
-- Supported: type, properties, required, additionalProperties, items,
-- minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength,
-- maxLength, minItems, maxItems, minProperties, maxProperties, enum, const,
-- oneOf, anyOf; title, description, $schema, $id and $comment say nothing.
-- Any other keyword is refused when the contract is added, because a rule
-- that is silently skipped is worse than none.

-- outbox._schema_check(schema, path): 22023 naming the place, unless the
-- schema stays within the subset.
CREATE OR REPLACE FUNCTION outbox._schema_check(p_schema jsonb, p_path text DEFAULT '#')
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_key text;
    v_value jsonb;
    v_at text;
    v_wrong text;
    v_name text;
    v_sub jsonb;
BEGIN
    IF jsonb_typeof(p_schema) = 'boolean' THEN
        RETURN;
    ELSIF jsonb_typeof(p_schema) <> 'object' THEN
        RAISE EXCEPTION 'body schema: %: a schema is an object or a boolean', p_path
            USING ERRCODE = '22023';
    ELSIF length(p_path) > 2000 THEN
        RAISE EXCEPTION 'body schema: nested too deep at %...', left(p_path, 80)
            USING ERRCODE = '22023';
    END IF;
    FOR v_key, v_value IN SELECT e.key, e.value FROM jsonb_each(p_schema) e LOOP
        v_at := p_path || '/' || v_key;
        v_wrong := NULL;
        CASE
        WHEN v_key IN ('title', 'description', '$schema', '$id', '$comment') THEN
            IF jsonb_typeof(v_value) <> 'string' THEN
                v_wrong := 'must be a string';
            END IF;
        WHEN v_key = 'type' THEN
            IF jsonb_typeof(v_value) NOT IN ('string', 'array') OR EXISTS (
                SELECT FROM jsonb_array_elements(CASE jsonb_typeof(v_value)
                    WHEN 'array' THEN v_value ELSE jsonb_build_array(v_value) END) t(v)
                 WHERE t.v NOT IN ('"null"', '"boolean"', '"object"', '"array"',
                                   '"number"', '"integer"', '"string"')) THEN
                v_wrong := 'must be one or more of null, boolean, object, array, number, integer, string';
            END IF;
        WHEN v_key = 'properties' THEN
            IF jsonb_typeof(v_value) <> 'object' THEN
                v_wrong := 'must be an object of schemas';
            ELSE
                FOR v_name, v_sub IN SELECT e.key, e.value FROM jsonb_each(v_value) e LOOP
                    PERFORM outbox._schema_check(v_sub, v_at || '/' || v_name);
                END LOOP;
            END IF;
        WHEN v_key IN ('items', 'additionalProperties') THEN
            PERFORM outbox._schema_check(v_value, v_at);
        WHEN v_key = 'required' THEN
            IF jsonb_typeof(v_value) <> 'array' OR EXISTS (
                SELECT FROM jsonb_array_elements(CASE jsonb_typeof(v_value)
                    WHEN 'array' THEN v_value ELSE '[]' END) t(v)
                 WHERE jsonb_typeof(t.v) <> 'string') THEN
                v_wrong := 'must be an array of property names';
            END IF;
        WHEN v_key IN ('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum') THEN
            IF jsonb_typeof(v_value) <> 'number' THEN
                v_wrong := 'must be a number';
            END IF;
        WHEN v_key IN ('minLength', 'maxLength', 'minItems', 'maxItems',
                       'minProperties', 'maxProperties') THEN
            IF jsonb_typeof(v_value) <> 'number' OR (v_value)::numeric < 0
               OR trunc((v_value)::numeric) <> (v_value)::numeric THEN
                v_wrong := 'must be a whole number, 0 or more';
            END IF;
        WHEN v_key = 'enum' THEN
            IF jsonb_typeof(v_value) <> 'array' OR v_value = '[]' THEN
                v_wrong := 'must be a non-empty array';
            END IF;
        WHEN v_key = 'const' THEN
            NULL;
        WHEN v_key IN ('oneOf', 'anyOf') THEN
            IF jsonb_typeof(v_value) <> 'array' OR v_value = '[]' THEN
                v_wrong := 'must be a non-empty array of schemas';
            ELSE
                FOR v_name, v_sub IN
                    SELECT (t.n - 1)::text, t.v
                      FROM jsonb_array_elements(v_value) WITH ORDINALITY t(v, n)
                LOOP
                    PERFORM outbox._schema_check(v_sub, v_at || '/' || v_name);
                END LOOP;
            END IF;
        ELSE
            v_wrong := 'keyword is not supported';
        END CASE;
        IF v_wrong IS NOT NULL THEN
            RAISE EXCEPTION 'body schema: %: %', v_at, v_wrong
                USING ERRCODE = '22023',
                      HINT = 'outbox-sql(7) lists the supported keywords';
        END IF;
    END LOOP;
END
$$;

-- outbox._type_is(value, name): does the value have this JSON Schema type?
CREATE OR REPLACE FUNCTION outbox._type_is(p_value jsonb, p_type text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT CASE p_type
           WHEN 'integer' THEN jsonb_typeof(p_value) = 'number'
                AND trunc((p_value #>> '{}')::numeric) = (p_value #>> '{}')::numeric
           ELSE jsonb_typeof(p_value) = p_type END
$$;

-- outbox._schema_error_scalar(schema, value, path): the first rule about the
-- value itself, not its members, that it breaks; NULL if none.
CREATE OR REPLACE FUNCTION outbox._schema_error_scalar(p_schema jsonb, p_value jsonb, p_path text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_kind text := jsonb_typeof(p_value);
    v_number numeric;
    v_size int;
    v_unit text;
    v_min text;
    v_max text;
BEGIN
    IF p_schema ? 'type' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements_text(CASE jsonb_typeof(p_schema -> 'type')
            WHEN 'array' THEN p_schema -> 'type'
            ELSE jsonb_build_array(p_schema -> 'type') END) t(name)
         WHERE outbox._type_is(p_value, t.name)) THEN
        RETURN format('%s: is %s, must be %s', p_path, v_kind,
            translate(p_schema ->> 'type', '[]"', ''));
    ELSIF p_schema ? 'const' AND p_value <> p_schema -> 'const' THEN
        RETURN format('%s: must be %s', p_path, p_schema -> 'const');
    ELSIF p_schema ? 'enum' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(p_schema -> 'enum') t(v) WHERE t.v = p_value) THEN
        RETURN format('%s: must be one of %s', p_path, p_schema -> 'enum');
    END IF;
    IF v_kind = 'number' THEN
        v_number := (p_value #>> '{}')::numeric;
        IF v_number < (p_schema ->> 'minimum')::numeric THEN
            RETURN format('%s: is below minimum %s', p_path, p_schema ->> 'minimum');
        ELSIF v_number > (p_schema ->> 'maximum')::numeric THEN
            RETURN format('%s: is above maximum %s', p_path, p_schema ->> 'maximum');
        ELSIF v_number <= (p_schema ->> 'exclusiveMinimum')::numeric THEN
            RETURN format('%s: must be above %s', p_path, p_schema ->> 'exclusiveMinimum');
        ELSIF v_number >= (p_schema ->> 'exclusiveMaximum')::numeric THEN
            RETURN format('%s: must be below %s', p_path, p_schema ->> 'exclusiveMaximum');
        END IF;
        RETURN NULL;
    END IF;
    CASE v_kind
    WHEN 'string' THEN
        v_size := length(p_value #>> '{}');
        v_unit := 'characters';
        v_min := p_schema ->> 'minLength';
        v_max := p_schema ->> 'maxLength';
    WHEN 'array' THEN
        v_size := jsonb_array_length(p_value);
        v_unit := 'items';
        v_min := p_schema ->> 'minItems';
        v_max := p_schema ->> 'maxItems';
    WHEN 'object' THEN
        v_size := (SELECT count(*) FROM jsonb_object_keys(p_value));
        v_unit := 'properties';
        v_min := p_schema ->> 'minProperties';
        v_max := p_schema ->> 'maxProperties';
    ELSE
        RETURN NULL;
    END CASE;
    IF v_size < v_min::numeric THEN
        RETURN format('%s: has %s %s, must have %s or more', p_path, v_size, v_unit, v_min);
    ELSIF v_size > v_max::numeric THEN
        RETURN format('%s: has %s %s, must have %s or fewer', p_path, v_size, v_unit, v_max);
    END IF;
    RETURN NULL;
END
$$;

-- outbox._schema_error(schema, value, path): why the value is refused, with
-- the place as a JSON pointer; NULL if it is accepted.
CREATE OR REPLACE FUNCTION outbox._schema_error(p_schema jsonb, p_value jsonb, p_path text DEFAULT '')
RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_error text;
    v_name text;
    v_item jsonb;
    v_fits int;
BEGIN
    IF jsonb_typeof(p_schema) = 'boolean' THEN
        RETURN CASE WHEN p_schema = 'false' THEN format('%s: is not allowed', p_path) END;
    END IF;
    v_error := outbox._schema_error_scalar(p_schema, p_value, coalesce(nullif(p_path, ''), 'body'));
    IF v_error IS NOT NULL THEN
        RETURN v_error;
    END IF;
    IF jsonb_typeof(p_value) = 'object' THEN
        SELECT r.name INTO v_name
          FROM jsonb_array_elements_text(coalesce(p_schema -> 'required', '[]')) r(name)
         WHERE NOT p_value ? r.name LIMIT 1;
        IF v_name IS NOT NULL THEN
            RETURN format('%s/%s: is required', p_path, v_name);
        END IF;
        IF p_schema ? 'properties' OR p_schema ? 'additionalProperties' THEN
            FOR v_name, v_item IN SELECT e.key, e.value FROM jsonb_each(p_value) e LOOP
                v_error := outbox._schema_error(coalesce(p_schema -> 'properties' -> v_name,
                    p_schema -> 'additionalProperties', 'true'), v_item, p_path || '/' || v_name);
                IF v_error IS NOT NULL THEN
                    RETURN v_error;
                END IF;
            END LOOP;
        END IF;
    ELSIF jsonb_typeof(p_value) = 'array' AND p_schema ? 'items' THEN
        FOR v_name, v_item IN
            SELECT (t.n - 1)::text, t.v
              FROM jsonb_array_elements(p_value) WITH ORDINALITY t(v, n)
        LOOP
            v_error := outbox._schema_error(p_schema -> 'items', v_item, p_path || '/' || v_name);
            IF v_error IS NOT NULL THEN
                RETURN v_error;
            END IF;
        END LOOP;
    END IF;
    IF p_schema ? 'anyOf' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(p_schema -> 'anyOf') s(v)
         WHERE outbox._schema_error(s.v, p_value, p_path) IS NULL) THEN
        RETURN format('%s: fits none of anyOf', coalesce(nullif(p_path, ''), 'body'));
    END IF;
    IF p_schema ? 'oneOf' THEN
        SELECT count(*) INTO v_fits FROM jsonb_array_elements(p_schema -> 'oneOf') s(v)
         WHERE outbox._schema_error(s.v, p_value, p_path) IS NULL;
        IF v_fits <> 1 THEN
            RETURN format('%s: fits %s of oneOf, must fit exactly one',
                coalesce(nullif(p_path, ''), 'body'), v_fits);
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- outbox._body_error(schema, body): why the schema refuses the body, or NULL.
-- A number or a nesting that cannot be looked at is refused as well.
CREATE OR REPLACE FUNCTION outbox._body_error(p_schema json, p_body json) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    RETURN outbox._schema_error(p_schema::jsonb, p_body::jsonb);
EXCEPTION WHEN numeric_value_out_of_range OR program_limit_exceeded OR statement_too_complex THEN
    RETURN 'body: ' || SQLERRM;
END
$$;

-- outbox._body_unholdable(body text): what no receiver can hold, or NULL:
-- \u0000, and one half of a surrogate pair.  "\\u0000" (an escaped backslash)
-- is ordinary text, so escaped backslashes are taken out first.
CREATE OR REPLACE FUNCTION outbox._body_unholdable(p_body text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_rest text;
BEGIN
    IF strpos(p_body, '\u') = 0 THEN
        RETURN NULL;
    END IF;
    v_rest := replace(p_body, '\\', ' '); -- a space: halves on its two sides stay apart
    IF strpos(v_rest, '\u0000') > 0 THEN
        RETURN 'body holds the escape \u0000';
    END IF;
    v_rest := regexp_replace(v_rest,
        '\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g');
    IF v_rest ~ '\\u[dD][89a-fA-F]' THEN
        RETURN 'body holds one half of a surrogate pair';
    END IF;
    RETURN NULL;
END
$$;
